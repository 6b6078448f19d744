#!/usr/bin/env bash
# The pictures of docs/images: the HTML report in a headless browser, the text report in a real terminal (tmux).
#   docs/screenshots.sh RECORDING
set -euo pipefail
recording=$1
images=$(cd "$(dirname "$0")" && pwd)/images
work=$(mktemp -d)
mkdir -p "$images"
shoot() { # URL PNG WIDTH HEIGHT
    chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$work/$RANDOM" \
        --window-size="$3,$4" --screenshot="$2" "$1" 2>/dev/null
}
slowtrain report --html "$work/report.html" "$recording" >/dev/null
shoot "file://$work/report.html" "$images/report.png" 1100 1500
tmux new-session -d -s slowtrain-shot -x 84 -y 44 "slowtrain report '$recording'; sleep 30"
sleep 4
tmux capture-pane -e -p -t slowtrain-shot >"$work/screen.ansi"
tmux kill-session -t slowtrain-shot
python3 - "$work/screen.ansi" "$work/screen.html" <<'PY'
import html, re, sys
colours = {"31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "34": "#61afef", "35": "#c678dd", "36": "#56b6c2", "90": "#7f848e"}
out, depth = [], 0
for part in re.split(r"(\x1b\[[0-9;]*m)", open(sys.argv[1], encoding="utf-8").read().rstrip()):
    if part.startswith("\x1b["):
        for code in part[2:-1].split(";") or ["0"]:
            if code in ("", "0", "39", "22"):
                out.append("</span>" * depth); depth = 0
            elif code in colours or code in ("1", "2"):
                style = f"color:{colours[code]}" if code in colours else "font-weight:bold" if code == "1" else "opacity:.6"
                out.append(f'<span style="{style}">'); depth += 1
    else:
        out.append(html.escape(part))
page = '<meta charset="utf-8"><body style="margin:0;background:#1e2127;color:#dcdfe4"><pre style="font:14px/1.35 monospace;padding:14px">'
open(sys.argv[2], "w", encoding="utf-8").write(page + "".join(out) + "</pre>")
PY
shoot "file://$work/screen.html" "$images/terminal.png" 760 680
rm -rf "$work"
