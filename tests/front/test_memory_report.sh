#!/bin/sh
# The tern command, and memory-report above all: good snapshots of two kinds, and files that are none.
# usage: test_memory_report.sh TERN
set -eu

tern=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-report.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
cd "$work"
failed=0

# expect STATUS TEXT COMMAND...: the exit status and a part of the output.
expect() {
    want=$1
    text=$2
    shift 2
    status=0
    "$@" >output 2>&1 </dev/null || status=$?
    [ -n "$text" ] || echo >>output
    if [ "$status" != "$want" ] || ! grep -qF -- "$text" output; then
        echo "memory_report: '$*' gave status $status, wanted $want and '$text':"
        head -c 2000 output | sed 's/^/    /'
        failed=1
    fi
}

# report STATUS TEXT JSON: memory-report on a document.
report() {
    printf '%s' "$3" >in.json
    expect "$1" "$2" "$tern" memory-report in.json
}

# page TEXT...: each is in the page.
page() {
    for text in "$@"; do
        grep -qF -- "$text" in.html || {
            echo "memory_report: '$text' is not in the page"
            failed=1
        }
    done
}

# ---- the command itself ----

expect 2 'usage: tern COMMAND' "$tern"
expect 0 'memory-report   a memory snapshot as an HTML page' "$tern" help
expect 0 '  version  ' "$tern" --help
expect 0 'FILE.json [-o OUT.html]' "$tern" help memory-report
expect 0 'FILE.json [-o OUT.html]' "$tern" memory-report --help
expect 0 'tern 0.' "$tern" version
expect 0 'tern 0.' "$tern" --version
expect 2 "'nonsense' is no command" "$tern" nonsense
expect 2 "'nonsense' is no command" "$tern" help nonsense
expect 2 "'x' is one argument too many" "$tern" version x
expect 2 'tern help version says how it is used' "$tern" --version x
expect 2 "'x' is one argument too many" "$tern" help env x
for command in version env 'explain ok' help 'help env'; do
    # shellcheck disable=SC2016
    expect 1 'tern: cannot write to stdout: No space left' \
        sh -c '"$1" $2 >/dev/full' sh "$tern" "$command"
done
# shellcheck disable=SC2016
expect 1 'tern: cannot write to stdout: Bad file descriptor' sh -c '"$1" devices >&-' sh "$tern"
for command in devices env; do # the log and simulated memory stay open
    for setting in TERN_SIM_DEVICES=1 "TERN_LOG_FILE=$work/log"; do
        # shellcheck disable=SC2016
        expect 1 'tern: cannot write to stdout: Bad file descriptor' \
            env "$setting" TERN_LOG=debug sh -c '"$1" $2 >&-' sh "$tern" "$command"
    done
done
if grep -v '^tern [a-z]*: ' log >output; then
    echo "memory_report: what was printed is in the log"
    failed=1
fi

# ---- arguments ----

expect 2 'memory-report: which file?' "$tern" memory-report
expect 2 "'--wrong' is no option" "$tern" memory-report --wrong
expect 2 "-o wants a value" "$tern" memory-report a.json -o
expect 2 "'b.json' is one file too many" "$tern" memory-report a.json b.json

# ---- files that are no snapshots ----

expect 1 'nowhere.json: No such file or directory' "$tern" memory-report nowhere.json
expect 1 '.: Is a directory' "$tern" memory-report .
report 1 'in.json: the file is empty' ''
report 1 'in.json: neither an object nor an array' '3'
report 1 "no array 'segments': this is not a memory snapshot" '{"a":1}'
report 1 'breaks off after 13 bytes: a truncated file?' '{"segments":['
report 1 'breaks off after 24 bytes' '{"segments":[{"device":"'
report 1 "not JSON at line 1, column 16: '}'" '{"segments":[],}'
report 1 'breaks off after 22 bytes' '{"segments":[{"a":["]}'
report 1 "not JSON at line 1, column 1: 'root:x:0:0:" 'root:x:0:0:root:/root:/bin/bash
'
report 1 'not JSON at line 2, column 12' '{"segments":
          [nonsense]}'
report 1 'something follows the snapshot at line 2, column 1: one file holds one' '{"segments":[]}
[]'
printf '\200\004snapshot' >pickle
expect 1 'pickle: a pickle, not JSON: in Python' "$tern" memory-report pickle
printf '\037\213\010snapshot' >packed
expect 1 'unpack it with gzip -d' "$tern" memory-report packed
dd if=/dev/zero of=huge bs=1 count=1 seek=268435456 2>/dev/null
printf '{' | dd of=huge conv=notrunc 2>/dev/null
expect 1 'huge: larger than 256 MiB: record fewer events' "$tern" memory-report huge

# ---- documents that are wrong inside ----

segment='"device":0,"address":4096,"total_size":1024,"stream":0'
report 1 'segments[0] is not an object' '{"segments":[7]}'
report 1 "segments[0] has no 'total_size'" '{"segments":[{"address":1}]}'
report 1 'segments[0].total_size is not a whole number' \
    '{"segments":[{"address":1,"total_size":-5}]}'
report 1 "segments[0] has no array 'blocks'" "{\"segments\":[{$segment}]}"
report 1 "segments[0].blocks[1].state is 'lost'" "{\"segments\":[{$segment,\"blocks\":[
    {\"size\":512,\"state\":\"inactive\"},{\"size\":512,\"state\":\"lost\"}]}]}"
report 1 'segments[0].blocks[0] lies outside its segment' "{\"segments\":[{$segment,\"blocks\":[
    {\"size\":2048,\"state\":\"inactive\"}]}]}"
report 1 'segments[0].blocks[0].size is not a whole number' "{\"segments\":[{$segment,\"blocks\":[
    {\"size\":1e300,\"state\":\"inactive\"}]}]}"
report 1 'device_traces[0][0] has no text' '{"segments":[],"device_traces":[[{}]]}'
report 1 'device_traces[0][0].size is not a whole number' \
    '{"segments":[],"device_traces":[[{"action":"alloc","size":0.5}]]}'
report 1 'segments[0].device is neither a number nor a name' \
    '{"segments":[{"address":1,"total_size":5,"device":[],"blocks":[]}]}'
[ ! -e in.html ] || {
    echo "memory_report: a page was written for a wrong document"
    failed=1
}

# ---- good ones ----

report 0 'from 0 segments' '[]
'
report 0 'in.html: ' '{"segments":[]}'
page 'The snapshot is empty'
report 0 'from 1 segments, 2 blocks, 0 events' "[{$segment,\"blocks\":[
    {\"size\":512,\"state\":\"active_allocated\",\"history\":[{\"real_size\":300,\"addr\":4096,
     \"frames\":[{\"filename\":\"a<b>&'\\\"</script>.py\",\"line\":7,\"name\":\"f\"}]}]},
    {\"size\":512,\"state\":\"inactive\"}]}]"
page 'a&lt;b&gt;&amp;&#39;&quot;&lt;/script&gt;.py:7 f' 'No events were recorded' \
    '300 B' '512 B' '<dd>1.00 KiB</dd>' '50 % used'
[ "$(grep -c '</script>' in.html)" = 2 ] || {
    echo "memory_report: a text of the file ends the page's script"
    failed=1
}
if grep -qE '(src|href)="?(https?:)?//|@import|url\(' in.html; then
    echo "memory_report: the page refers to something outside"
    failed=1
fi

# A trace that starts in the middle: 1000 bytes were there before, 2000 at the peak.
report 0 '5 events' "{\"segments\":[{$segment,\"blocks\":[
    {\"size\":1024,\"state\":\"active_allocated\",\"requested_size\":1000,\"frames\":[]}]}],
    \"device_traces\":[[
    {\"action\":\"alloc\",\"addr\":1,\"size\":500,\"stream\":0,\"frames\":[{\"filename\":\"t.c\",\"line\":9}]},
    {\"action\":\"alloc\",\"addr\":2,\"size\":500,\"stream\":0,\"frames\":[]},
    {\"action\":\"oom\",\"size\":99999,\"stream\":0,\"device_free\":4096,\"frames\":[{\"filename\":\"t.c\",\"line\":4}]},
    {\"action\":\"free_requested\",\"addr\":1,\"size\":500,\"stream\":0,\"frames\":[]},
    {\"action\":\"free_requested\",\"addr\":2,\"size\":500,\"stream\":0,\"frames\":[]}]]}"
page 'peak 1.95 KiB' 't.c:9' 'Out of memory: 97.7 KiB were asked for at t.c:4' \
    'the device had 4.00 KiB free' 'class="oom"'

# Pages of an expandable segment go back one by one: of 20 MiB here, where a file does not say.
expandable='"device":0,"address":4096,"total_size":125829120,"stream":0,"is_expandable":true,"blocks":[
    {"size":31457280,"state":"active_allocated"},{"size":20971520,"state":"inactive"},
    {"size":31457280,"state":"inactive"},{"size":41943040,"state":"active_awaiting_free"}]'
report 0 'from 1 segments, 4 blocks' "[{$expandable}]"
page 'empty_cache returns</dt><dd>40.0 MiB</dd><p>in 1 segments: all of it, or free pages</p>' \
    'Free in pieces</td><td class="n" title="10485760 bytes">'
report 0 'from 1 segments, 4 blocks' "[{\"page_size\":2097152,$expandable}]"
page 'empty_cache returns</dt><dd>50.0 MiB</dd>' 'Free in pieces</td><td class="n" title="0 bytes">'
report 1 'segments[0].page_size is 0' "[{\"page_size\":0,$expandable}]"

# What is let go and not yet free serves no request: 1000 bytes of the 1024 here, until after the second.
waiting="\"segments\":[{$segment,\"blocks\":[{\"size\":1024,\"requested_size\":1000,\"state\":\"active_awaiting_free\"}]}]"
oom='{"action":"oom","size":900,"stream":0,"device_free":-1,"frames":[]}'
report 0 '1 events' "{$waiting,\"device_traces\":[[$oom]]}"
page 'The sites below say what held it.' '[4096,1024,1000,2,1,'
waited='{"action":"free_completed","addr":4096,"size":1024,"stream":0,"frames":[]}'
free="\"segments\":[{$segment,\"blocks\":[{\"size\":1024,\"state\":\"inactive\"}]}]"
report 0 '2 events' "{$free,\"device_traces\":[[$waited,$oom]]}"
page 'The cache held that much, in pieces'
report 0 '2 events' "{$free,\"device_traces\":[[$oom,$waited]]}"
page 'The sites below say what held it.'

# -1: the device did not say what it had free, so the page does not either.
report 0 '1 events' '{"segments":[],"device_traces":[[
    {"action":"oom","size":99999,"stream":0,"device_free":-1,"frames":[{"filename":"t.c","line":4}]}]]}'
page 'Out of memory: 97.7 KiB were asked for at t.c:4'
if grep -q 'the device had' in.html; then
    echo "memory_report: free memory that the device did not tell"
    failed=1
fi

if command -v python3 >/dev/null 2>&1; then
    python3 "$here/make_snapshot.py" 600 >in.json
    expect 0 'in.html: ' "$tern" memory-report in.json --title 'A <title>'
    page 'A &lt;title&gt;' 'Out of memory: 9.01 MiB were asked for at project/model.py:69 forward' \
        'in pieces: expandable_segments:True' 'made at project/train.py:71 keep_activations' \
        'peak 605 MiB' '<dd>627 MiB</dd>' '<dd>758 MiB</dd>' '97 %'
    # A page does not grow with its trace: 26421 events are 6 MB of JSON.
    [ "$(wc -c <in.html)" -lt 400000 ] || {
        echo "memory_report: a page of $(wc -c <in.html) bytes"
        failed=1
    }
    "$tern" memory-report - --title 'A <title>' -o - <in.json >piped.html
    cmp in.html piped.html || failed=1
    head -c 100000 in.json >cut.json
    expect 1 'cut.json: the JSON breaks off after 100000 bytes' "$tern" memory-report cut.json
fi
expect 1 'nowhere/out.html: No such file or directory' \
    "$tern" memory-report in.json -o nowhere/out.html

# ---- where it is written ----

report 0 'in.html: ' '{"segments":[]}'
cp in.json kept.json
expect 2 "-o names 'in.json' itself, which is to be read" "$tern" memory-report in.json -o ./in.json
expect 0 '' cmp in.json kept.json
echo old >page.html
chmod 600 page.html
ln page.html old.html
ln -s page.html link.html
expect 0 'link.html: ' "$tern" memory-report in.json -o link.html
expect 0 '-rw-------' ls -l page.html
expect 0 'old' cat old.html
expect 0 'The snapshot is empty' cat page.html
expect 0 '' test -h link.html
mkfifo pipe
cat pipe >through.html &
expect 0 'pipe: ' "$tern" memory-report in.json -o pipe
wait
expect 0 '' test -p pipe
expect 0 '' cmp through.html page.html
# shellcheck disable=SC2016
expect 0 '' sh -c '(echo header; "$1" memory-report in.json -o "$2"; echo trailer) >all' sh "$tern" /dev/stdout
expect 0 'header' sed -n '1p' all
expect 0 'The snapshot is empty' cat all
expect 0 'trailer' tail -n 1 all
# shellcheck disable=SC2016
expect 0 'fd/3: ' sh -c '{ echo header >&3; "$1" memory-report in.json -o /dev/fd/3; } 3>all' sh "$tern"
expect 0 'header' sed -n '1p' all
expect 0 'The snapshot is empty' cat all
mkdir other
ln -s new.html other/two
ln -s other/two one
expect 0 'one: ' "$tern" memory-report in.json -o one
expect 0 '' test -h one
expect 0 '' cmp other/new.html page.html
ln -s nowhere/new.html lost
expect 1 'lost: No such file or directory' "$tern" memory-report in.json -o lost
# What a process of the same number has left.
# shellcheck disable=SC2016
expect 0 'page.html: ' sh -c ': >page.html.tmp-$$ && : >page.html.tmp-$$-0 && exec "$1" memory-report in.json -o page.html' \
    sh "$tern"

exit $failed
