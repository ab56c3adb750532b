// What the texts of the stories (stories.js) claim, step by step, about the figures at the end of the step: for each story a
// list of steps, for each step claims. `lanes` are what the page shows: words, MiB/s together, and of each tenant got and
// due in MiB/s, `part` = got / due (at most 1), p50 and p99 in nanoseconds. `whole` is MiB/s since the begin of the run: of a
// tenant that writes in bursts, the window of a second has one burst more or less, by where the last frame ended.
(() => {
  const alone = (tenant) => tenant.part > 0.9;
  const near = (a, b, by = 0.1) => Math.abs(a - b) <= by * b;
  const missing = (lane) => /of the .* that are due to it \(/.test(lane.words);
  const content = (lane) => lane.words.includes("every tenant got");
  return [
    [ // The write bomb of 2003
      { "the reader misses its due": ([linus]) => linus.reader.part < 0.3 && missing(linus) },
      {
        "hundreds of milliseconds in one list": ([linus]) => linus.reader.p50 > 3e8,
        "deadline prefers reads": ([linus, deadline]) => deadline.reader.p50 < linus.reader.p50 / 5 && deadline.reader.got > 2 * linus.reader.got,
      },
      {
        "the reader waits least under nas": ([linus, deadline, nas]) => nas.reader.p50 < deadline.reader.p50 && deadline.reader.p50 < linus.reader.p50,
        "the writer gets about the same": ([linus, deadline, nas]) => near(nas.bomb.whole, linus.bomb.whole, 0.1) && near(deadline.bomb.whole, linus.bomb.whole, 0.1),
        "nobody misses much under nas": ([, , nas]) => nas.reader.part > 0.8,
      },
    ],
    [ // CFQ's idling on an array
      { "the array works like one disk": ([cfq]) => cfq.g1.part < 0.4 && cfq.g4.part < 0.4 },
      {
        "four times as high": ([idling, not]) => near(not.rate, 4 * idling.rate, 0.2),
        "divided about by weight": ([, not]) => not.words.includes("divided about as due") && [1, 2, 3, 4].every((g) => near(not[`g${g}`].got, (g / 10) * not.rate, 0.3)),
        "nobody gets all": ([, not]) => not.g4.part < 0.9,
        "the words say that less is done": ([idling]) => /Together .* less than under/.test(idling.words),
      },
    ],
    [ // BFQ's queue merging
      { "one tenant": ([cfq]) => cfq.words.startsWith("Only readers issues") },
      { "more than three times as fast": ([cfq, bfq]) => bfq.rate > 3 * cfq.rate },
    ],
    [ // 2:6 on flash
      { "both get the same, and nobody misses anything": ([cfq]) => near(cfq.a.got, cfq.b.got, 0.02) && content(cfq) },
      {
        "3:1": ([, bfq]) => near(bfq.a.got, 3 * bfq.b.got, 0.03),
        "half of the throughput": ([cfq, bfq]) => near(bfq.rate, cfq.rate / 2, 0.06),
        "b pays": ([, bfq]) => near(bfq.b.part, 0.25, 0.1) && bfq.words.includes("b got") && missing(bfq),
      },
      { "a third": ([cfq, bfq]) => near(bfq.a.got, 3 * bfq.b.got, 0.03) && near(bfq.rate, (2 / 3) * cfq.rate, 0.1) },
      // bfq serves in turns, so that a window of half a second has more of one of them.
      { "3:1 at full throughput": ([, ...lanes]) => lanes.every((it) => near(it.a.got, 3 * it.b.got, 0.05)) && near(lanes[0].rate, lanes[1].rate, 0.05) && lanes.every(content) },
    ],
    [ // Four groups, one of them a film
      {
        "the film waits a tenth of a second": ([cfq]) => cfq.film.p50 > 5e7 && cfq.film.got < 0.9,
        "a few milliseconds": ([, bfq]) => bfq.film.p50 < 1e7 && bfq.film.got > 1.2,
      },
      {
        "less than a millisecond": ([, , it]) => it.film.p50 < 1e6,
        "more than twice as much": ([cfq, bfq, it]) => it.rate > 2 * bfq.rate && it.rate > 2 * cfq.rate,
      },
    ],
    [ // Why two readers of depth 1 cannot have 3:1 for free
      { "1:1, and that is what is due": ([none]) => near(none.a.got, none.b.got, 0.02) && content(none) },
      {
        "give=0 holds nothing back": ([zero]) => near(zero.a.got, zero.b.got, 0.02) && content(zero),
        "3:1 to the letter": ([, all]) => near(all.a.got, 3 * all.b.got, 0.05),
        "a third less together": ([zero, all]) => near(all.rate, (2 / 3) * zero.rate, 0.1),
        "b has a third": ([, all]) => near(all.b.part, 1 / 3, 0.1) && missing(all),
      },
      { "3:1 is due, and costs nothing": (lanes) => lanes.every((it) => near(it.a.due, 3 * it.b.due, 0.03) && near(it.a.got, 3 * it.b.got, 0.05) && content(it)) },
    ],
    [ // What give buys
      { "what shallow does alone is due to it": ([zero, , all]) => zero.shallow.part < 0.95 && near(all.shallow.got, all.shallow.due, 0.05) },
      {
        "shallow gets more": ([zero, ten, all]) => zero.shallow.got < ten.shallow.got && ten.shallow.got < all.shallow.got,
        "the total falls": ([zero, ten, all]) => zero.rate > ten.rate && ten.rate > all.rate,
        "8:1 to the letter": ([, , all]) => near(all.shallow.got, 8 * all.deep.got, 0.1),
        "deep gets next to nothing of its due": ([, , all]) => all.deep.part < 0.1 && all.words.includes("deep got") && missing(all),
        "a little is enough": ([, ten]) => ten.shallow.part > 0.8 && ten.deep.part > 0.8,
      },
      { "the three lanes do the same": (lanes) => lanes.every((it) => near(it.rate, lanes[0].rate, 0.02) && near(it.shallow.got, 8 * it.deep.got, 0.05) && content(it)) },
    ],
    [ // A noisy neighbour, and its cure
      { "alone": (lanes) => lanes.every((it) => it.words.startsWith("Only db issues")) },
      {
        "a fifth": ([none]) => near(none.db.got, none.rate / 5, 0.05) && missing(none),
        "four fifths": ([, paternoster]) => near(paternoster.db.got, 0.8 * paternoster.rate, 0.03) && content(paternoster),
        "three to six times as long": ([none, paternoster]) => none.db.p50 > 3 * paternoster.db.p50 && none.db.p50 < 6 * paternoster.db.p50,
      },
      { "the left lane does not care": ([none, paternoster]) => near(none.db.got, none.rate / 5, 0.05) && paternoster.db.got > 0.93 * paternoster.rate && content(paternoster) },
    ],
    [ // To and fro, or one after the other
      { "with a seek for nearly every request": ([mq]) => mq.rate < 4 },
      { "twenty times as much": ([mq, bfq]) => bfq.rate > 15 * mq.rate && bfq.words.includes("of the requests were chosen") },
      { "c is due four times as much": ([, bfq]) => near(bfq.c.due, 4 * bfq.a.due, 0.05) && bfq.c.got > 2 * bfq.a.got },
    ],
    [ // Unclaimed shares
      { "each gets its part": ([it]) => near(it.db.got, 2 * it.web.got, 0.05) && near(it.web.got, 2 * it.batch.got, 0.05) && content(it) },
      { "2:1, and the device stays full": ([it]) => near(it.web.got, 2 * it.batch.got, 0.05) && it.rate > 160 && content(it) },
      { "its part at once": ([it]) => alone(it.db) && alone(it.web) && alone(it.batch) && content(it) },
    ],
    [ // Readers beside a writer on flash
      { "a read waits for a program": ([none, kyber]) => none.reader.p50 > 1e7 && none.reader.part < 0.1 && kyber.reader.p50 < none.reader.p50 / 3 },
      { "kyber lets reads meet their goal better, without weights": ([none, kyber]) => kyber.reader.p99 < none.reader.p99 / 3 && kyber.reader.part < 0.5 && missing(kyber) },
      {
        "most of what is due": ([, , it]) => it.reader.part > 0.5,
        "though not all": ([, , it]) => it.reader.part < 0.98,
        "the reader's 99th percentile": ([none, kyber, it]) => it.reader.p99 < kyber.reader.p99 && kyber.reader.p99 < none.reader.p99,
      },
    ],
  ];
})()
