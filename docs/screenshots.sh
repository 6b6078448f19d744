#!/usr/bin/env bash
# The pictures of docs/images: the HTML report in a headless browser, the text report in a real terminal (tmux).
#   docs/screenshots.sh RECORDING          of a run that has ended
#   docs/screenshots.sh --watch RECORDING  of one in progress
set -euo pipefail
watch=no
[ "$1" = --watch ] && watch=yes && shift
recording=$1
images=$(cd "$(dirname "$0")" && pwd)/images
work=$(mktemp -d)
mkdir -p "$images"
shoot() { # URL PNG WIDTH HEIGHT
    chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$work/$RANDOM" \
        --window-size="$3,$4" --screenshot="$2" "$1" 2>/dev/null
}
screen() { # PNG COLUMNS ROWS SECONDS COMMAND: what a terminal shows after so many seconds
    tmux -L slowtrain-shot -f /dev/null -D & # in the foreground: its own way to the background is barred in some containers
    sleep 1
    tmux -L slowtrain-shot new-session -d -s shot -x "$2" -y "$3" "$5; sleep 1000"
    sleep "$4"
    tmux -L slowtrain-shot capture-pane -e -p -t shot >"$work/screen.ansi"
    tmux -L slowtrain-shot kill-server
    python3 - "$work/screen.ansi" "$work/screen.html" <<'PY'
import html, re, sys
colours = {"31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "34": "#61afef", "35": "#c678dd", "36": "#56b6c2", "90": "#7f848e"}
out, now = [], {}
for part in re.split(r"(\x1b\[[0-9;]*m)", open(sys.argv[1], encoding="utf-8").read().rstrip()):
    if part.startswith("\x1b["):
        for code in part[2:-1].split(";"):
            if code in ("", "0"):
                now = {}
            elif code in colours:
                now["color"] = colours[code]
            elif code == "39":
                now.pop("color", None)
            elif code in ("1", "2"):
                now |= {"font-weight": "bold"} if code == "1" else {"opacity": ".6"}
            elif code == "22":
                now = {key: value for key, value in now.items() if key == "color"}
    elif part:
        style = ";".join(f"{key}:{value}" for key, value in now.items())
        out.append(f'<span style="{style}">{html.escape(part)}</span>')
page = '<meta charset="utf-8"><body style="margin:0;background:#1e2127;color:#dcdfe4"><pre style="font:14px/1.35 monospace;padding:14px">'
open(sys.argv[2], "w", encoding="utf-8").write(page + "".join(out) + "</pre>")
PY
    shoot "file://$work/screen.html" "$1" $(($2 * 84 / 10 + 54)) $(($3 * 19 + 28))
}
if [ "$watch" = yes ]; then
    screen "$images/watch.png" 80 28 40 "slowtrain watch '$recording'"
else
    slowtrain report --html "$work/report.html" "$recording" >/dev/null
    shoot "file://$work/report.html" "$images/report.png" 1100 1500
    screen "$images/terminal.png" 84 44 4 "slowtrain report '$recording'"
fi
rm -rf "$work"
