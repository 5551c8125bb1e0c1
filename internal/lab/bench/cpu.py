# The CPU set, as cpu.js has it. Each interpreter reads this file once; prepare() makes the data, then each function is
# called over and over.
import json
import re


class suite:
    text = data = ""
    objects = []

    @staticmethod
    def xorshift(x):
        while True:
            x ^= (x << 13) & 0xFFFFFFFF
            x ^= x >> 17
            x ^= (x << 5) & 0xFFFFFFFF
            yield x

    @staticmethod
    def fibonacci(n):
        return n if n < 2 else suite.fibonacci(n - 1) + suite.fibonacci(n - 2)

    @staticmethod
    def rows(n):
        r = suite.xorshift(42).__next__
        return [
            {
                "id": i,
                "name": "user%d" % (r() % 100000),
                "score": (r() % 10000) / 7,
                "tags": ["a%d" % (r() % 10), "b%d" % (r() % 10)],
                "place": {"x": r() % 100, "label": "v%d" % i},
                "active": i % 2 == 0,
            }
            for i in range(n)
        ]

    @staticmethod
    def prepare():
        suite.data = json.dumps(suite.rows(42000), separators=(",", ":"))
        r = suite.xorshift(7).__next__
        suite.objects = [{"key": r(), "label": "n%d" % (r() % 1000)} for _ in range(200000)]
        words = []
        for _ in range(32000):
            words.append("lorem ipsum dolor")
            words.append("user%d@example%d.com" % (r() % 1000, r() % 10) if r() % 3 == 0 else "x%d" % r())
        suite.text = " ".join(words)[: 1 << 20]
        return len(suite.data) > 4e6 and len(suite.text) == 1 << 20

    @staticmethod
    def fib():
        return suite.fibonacci(27)

    @staticmethod
    def json():
        return len(json.dumps(json.loads(suite.data), separators=(",", ":"))) == len(suite.data)

    @staticmethod
    def sort():
        s = sorted(suite.objects, key=lambda o: o["key"])
        return s[0]["key"] <= s[1]["key"]

    @staticmethod
    def regex():
        return len(re.findall(r"[a-z0-9]+@[a-z0-9]+\.com", suite.text)) + len(re.split(r"\s+", suite.text))

    @staticmethod
    def aggregate():
        groups = {}
        for r in suite.rows(20000):
            g = groups.setdefault(r["tags"][0] + r["tags"][1], [0, 0.0])
            g[0] += 1
            g[1] += r["score"]
        means = [(key, total / n, n) for key, (n, total) in groups.items() if n > 10]
        return len(sorted(means, key=lambda e: -e[1]))
