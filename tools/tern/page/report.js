/* Hovering, sorting and picking for a page of tern memory-report; the page is complete without it.
 *
 * The element #data holds, for each device (in the order of the sections), `buckets`:
 *   [column, first event, last event, microseconds, low, high, reserved, largest allocation, place],
 * and `segments`: [address, size, stream, kind, pieces], drawn in this order, with pieces
 *   [address, size, requested, state, blocks, place], one for each rect of the segment's bar.
 * `places` are [site, stack]. */
(function () {
    'use strict';
    const data = JSON.parse(document.getElementById('data').textContent);
    const tip = document.getElementById('tip');
    const states = ['inactive', 'active', 'awaiting free'];
    document.documentElement.classList.add('js');

    function size(bytes) {
        const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
        let value = bytes, unit = 0;
        while (value >= 1000 && unit < 5) {
            value /= 1024;
            unit++;
        }
        return value.toFixed(unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2) + ' ' + units[unit];
    }

    function time(us) {
        if (us < 1e3) return us + ' us';
        return us < 1e6 ? (us / 1e3).toFixed(1) + ' ms' : (us / 1e6).toFixed(3) + ' s';
    }

    function show(event, text) {
        tip.textContent = text;
        tip.hidden = false;
        const box = tip.getBoundingClientRect();
        const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
        const below = event.clientY + 18;
        tip.style.left = Math.max(8, x) + 'px';
        tip.style.top = (below + box.height > innerHeight ? event.clientY - box.height - 12 : below) + 'px';
    }

    function hide() {
        tip.hidden = true;
    }

    function stackOf(place) {
        return data.places[place] ? data.places[place][1] : 'no site recorded';
    }

    /* ---- the timeline ---- */

    function bucketAt(buckets, column) { /* the last one that begins at or before the column */
        let low = 0, high = buckets.length - 1;
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (buckets[middle][0] <= column) low = middle;
            else high = middle - 1;
        }
        return buckets[low];
    }

    function bucketText(device, bucket) {
        const events = bucket[1] === bucket[2] ? 'event ' + bucket[1] : 'events ' + bucket[1] + ' to ' + bucket[2];
        const lines = [device.timed ? time(bucket[3]) + ', ' + events : events];
        lines.push('allocated ' + (bucket[4] === bucket[5] ? '' : size(bucket[4]) + ' to ') + size(bucket[5]));
        lines.push('reserved ' + size(bucket[6]));
        if (bucket[7] >= 0)
            lines.push('largest allocation ' + size(bucket[7]) + ', made at', stackOf(bucket[8]));
        return lines.join('\n');
    }

    function watchTimeline(svg, device) {
        const cross = svg.querySelector('.cross');
        const left = +svg.dataset.left, right = +svg.dataset.right;
        const width = svg.viewBox.baseVal.width;
        const columns = device.timed ? device.columns - 1 : device.columns;
        svg.addEventListener('mousemove', function (event) {
            const box = svg.getBoundingClientRect();
            const x = (event.clientX - box.left) / box.width * width;
            if (x < left || x > right) {
                cross.setAttribute('visibility', 'hidden');
                return hide();
            }
            cross.setAttribute('visibility', 'visible');
            cross.setAttribute('transform', 'translate(' + x + ')');
            show(event, bucketText(device, bucketAt(device.buckets, (x - left) / (right - left) * columns)));
        });
        svg.addEventListener('mouseleave', function () {
            cross.setAttribute('visibility', 'hidden');
            hide();
        });
    }

    /* ---- segments ---- */

    function pieceText(segment, piece) {
        const lines = [];
        if (piece[4] > 1)
            lines.push(piece[4] + ' small blocks, ' + size(piece[1]) + ', mostly ' + states[piece[3]]);
        else
            lines.push(size(piece[1]) + ' (' + piece[1] + ' bytes), ' + states[piece[3]]);
        if (piece[3] !== 0) lines.push('asked for ' + size(piece[2]) + ' (' + piece[2] + ' bytes)');
        lines.push('stream ' + segment[2] + ', address 0x' + piece[0].toString(16));
        lines.push('segment of ' + size(segment[1]) + ', ' + segment[3]);
        if (piece[3] !== 0) lines.push('made at', stackOf(piece[5]));
        return lines.join('\n');
    }

    function watchSegments(section, device) {
        const box = section.querySelector('.segments');
        if (!box) return;
        box.querySelectorAll('svg').forEach(function (svg, number) {
            const segment = device.segments[number];
            svg.querySelectorAll('rect').forEach(function (rect, i) {
                rect.piece = segment[4][i];
                rect.segment = segment;
            });
        });
        box.addEventListener('mousemove', function (event) {
            if (event.target.piece) show(event, pieceText(event.target.segment, event.target.piece));
            else hide();
        });
        box.addEventListener('mouseleave', hide);
    }

    /* ---- sites: a click on a row marks its blocks, on a head sorts ---- */

    function pick(section, row) {
        const again = row.classList.contains('picked');
        const site = +row.dataset.site, box = section.querySelector('.segments');
        section.querySelectorAll('.picked').forEach(function (old) { old.classList.remove('picked'); });
        if (box) box.classList.toggle('picking', !again);
        if (again) return;
        row.classList.add('picked');
        section.querySelectorAll('.segments rect').forEach(function (rect) {
            const place = data.places[rect.piece[5]];
            if (rect.piece[3] !== 0 && place && place[0] === site) rect.classList.add('picked');
        });
    }

    function sortBy(table, column) {
        const rows = Array.from(table.tBodies[0].rows);
        const value = function (row) { return +(row.cells[column].dataset.v || 0); };
        if (column === 0)
            rows.sort(function (a, b) { return a.cells[0].textContent < b.cells[0].textContent ? -1 : 1; });
        else
            rows.sort(function (a, b) { return value(b) - value(a); });
        rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
    }

    function watchSites(section) {
        const table = section.querySelector('.sites');
        if (!table) return;
        const columns = [0, 1, 3, 4, 6]; /* of the heads: two of them span two */
        Array.from(table.tHead.rows[0].cells).forEach(function (head, i) {
            head.addEventListener('click', function () { sortBy(table, columns[i]); });
        });
        table.tBodies[0].addEventListener('click', function (event) {
            const row = event.target.closest('tr');
            if (row) pick(section, row);
        });
    }

    document.querySelectorAll('section.device').forEach(function (section, number) {
        const device = data.devices[number];
        const timeline = section.querySelector('.timeline');
        if (timeline) watchTimeline(timeline, device);
        watchSegments(section, device);
        watchSites(section);
    });
    document.body.dataset.ready = 'yes';
}());
