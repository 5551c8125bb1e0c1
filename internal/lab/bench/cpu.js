// The CPU set. Each engine reads this file once; prepare() makes the data, then each function is called over and over.
var suite = (function () {
  function xorshift(seed) {
    var x = seed | 0;
    return function () {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      return x >>> 0;
    };
  }
  function fibonacci(n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
  }
  function rows(n) {
    var next = xorshift(42), out = [];
    for (var i = 0; i < n; i++) {
      out.push({
        id: i,
        name: "user" + (next() % 100000),
        score: (next() % 10000) / 7,
        tags: ["a" + (next() % 10), "b" + (next() % 10)],
        place: { x: next() % 100, label: "v" + i },
        active: i % 2 === 0,
      });
    }
    return out;
  }
  var json = "", objects = [], text = "";
  return {
    prepare: function () {
      var next = xorshift(7), words = [];
      json = JSON.stringify(rows(42000));
      for (var i = 0; i < 200000; i++) objects.push({ key: next(), label: "n" + (next() % 1000) });
      for (i = 0; i < 32000; i++) {
        words.push("lorem ipsum dolor", next() % 3 === 0 ? "user" + (next() % 1000) + "@example" + (next() % 10) + ".com" : "x" + next());
      }
      text = words.join(" ").slice(0, 1 << 20);
      return json.length > 4e6 && text.length === 1 << 20;
    },
    fib: function () {
      return fibonacci(27);
    },
    json: function () {
      return JSON.stringify(JSON.parse(json)).length === json.length;
    },
    sort: function () {
      var sorted = objects.slice().sort(function (a, b) {
        return a.key - b.key;
      });
      return sorted[0].key <= sorted[1].key;
    },
    regex: function () {
      return text.match(/[a-z0-9]+@[a-z0-9]+\.com/g).length + text.split(/\s+/).length;
    },
    aggregate: function () {
      var groups = new Map();
      rows(20000).forEach(function (r) {
        var key = r.tags[0] + r.tags[1], g = groups.get(key);
        if (!g) groups.set(key, (g = { n: 0, sum: 0 }));
        g.n++;
        g.sum += r.score;
      });
      return Array.from(groups)
        .map(function (e) {
          return { key: e[0], mean: e[1].sum / e[1].n, n: e[1].n };
        })
        .filter(function (e) {
          return e.n > 10;
        })
        .sort(function (a, b) {
          return b.mean - a.mean;
        }).length;
    },
  };
})();
