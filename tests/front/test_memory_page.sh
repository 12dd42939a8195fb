#!/bin/sh
# A page of memory-report in headless Chromium: it draws, hovering shows sizes and sites, a click on a
# site marks its blocks. Skipped (77) without Chromium or Python. usage: test_memory_page.sh TERN
set -eu

tern=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
if [ -z "$browser" ] || ! command -v python3 >/dev/null 2>&1; then
    echo "skipped: no Chromium or no Python (./run deps browser installs the first)"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-page.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
cd "$work"

python3 "$here/make_snapshot.py" 600 >snapshot.json
"$tern" memory-report snapshot.json

# What a reader would do, and what the page then says, as attributes of the body.
cat >actions.html <<'TEXT'
<script>
const tip = document.getElementById('tip'), note = document.body.dataset;
const move = function (element, x, y) {
    element.dispatchEvent(new MouseEvent('mousemove', { bubbles: true, clientX: x, clientY: y }));
    return tip.hidden ? 'hidden' : tip.textContent.replace(/\n/g, '|');
};
const chart = document.querySelector('.timeline'), box = chart.getBoundingClientRect();
note.rects = document.querySelectorAll('.segments rect').length;
note.middle = move(chart, box.left + box.width / 2, box.top + 90);
note.edge = move(chart, box.left + 2, box.top + 90);
note.block = move(document.querySelector('.segments rect'), 100, 100);
document.querySelector('.sites tbody tr').click();
note.picked = document.querySelectorAll('.segments rect.picked').length;
document.querySelectorAll('.sites th')[3].click();
note.first = document.querySelector('.sites tbody tr td').textContent;
note.overflow = document.documentElement.scrollWidth - innerWidth;
</script>
TEXT
cat snapshot.html actions.html >acted.html

render() {
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars \
        --user-data-dir="$work/profile" --window-size=1280,1500 "$@" 2>browser.log
}
render --dump-dom "file://$work/acted.html" >dom.html || {
    cat browser.log
    exit 1
}
failed=0
for text in 'data-ready="yes"' 'data-rects="1' ' ms, events 12' '|reserved ' \
    'data-edge="hidden"' 'data-block="' 'asked for ' '|stream 0, address 0x7f' '|made at|' \
    'data-picked="79"' 'data-first="project/train.py:71 keep_activations"' 'data-overflow="0"'; do
    grep -qF -- "$text" dom.html || {
        echo "memory_page: '$text' is not in the page:"
        grep -o '<body[^>]*>' dom.html || head -c 2000 browser.log
        failed=1
    }
done
render --screenshot="$work/page.png" "file://$work/snapshot.html" >/dev/null
[ "$(wc -c <page.png)" -gt 50000 ] || {
    echo "memory_page: the screenshot has only $(wc -c <page.png) bytes"
    failed=1
}
[ -z "${TERN_TEST_SCREENSHOT:-}" ] || cp page.png "$TERN_TEST_SCREENSHOT"
exit $failed
