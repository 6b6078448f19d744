// The page is complete without this: it only shows an SVG's <title> at once instead of after a
// second, opens what is folded before printing, and opens a folded page that a link leads to.
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  let from = null;
  const restore = () => {
    if (from) from.node.prepend(from.title);
    from = null;
    tip.hidden = true;
  };
  document.addEventListener("pointermove", (event) => {
    const node = event.target.closest?.("svg .hover, svg .bar, .stacked > svg, .graph g");
    if (node !== from?.node) {
      restore();
      const title = node?.querySelector(":scope > title");
      if (title) {
        title.remove(); // or the browser would show it as well
        from = { node, title };
        tip.textContent = title.textContent;
        tip.hidden = false;
      }
    }
    if (from) {
      const right = event.clientX + 14 + tip.offsetWidth > innerWidth;
      tip.style.left = `${Math.max(right ? event.clientX - 10 - tip.offsetWidth : event.clientX + 14, 4)}px`;
      tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - 12 - tip.offsetHeight : event.clientY + 18}px`;
    }
  });
  document.addEventListener("pointerleave", restore);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));
})();
