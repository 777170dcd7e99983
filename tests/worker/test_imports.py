"""The imports of a program are made before it starts, and what is closed afterwards says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.test_candidates import probe

NAMED = {
    "at the top": "import colorsys\ndef f(x): return colorsys.rgb_to_hls(0, 0, x)[1]",
    "in a function": "def f(x):\n    import colorsys\n    return colorsys.rgb_to_hls(0, 0, x)[1]",
    "from a package": "from xml.etree import ElementTree\ndef f(x): return len(ElementTree.Element('a')) + x",
    "below a package": "import xml.dom.minidom\ndef f(x): return xml.dom.minidom.Document().nodeType + x",
    "in a class in a function": "def f(x):\n    class A:\n        def g(self):\n            import this, quopri\n"
    "            return quopri.encodestring(b'a') == b'a'\n    return A().g()",
    "under try": "try:\n    import nowhere\nexcept ImportError:\n    nowhere = None\ndef f(x): return nowhere is None",
    "of many names": "\n".join(f"v{n} = {n}" for n in range(300))
    + "\nimport colorsys\ndef f(x): return colorsys.rgb_to_hls(0, 0, x)[1]",
    "on first use": "import concurrent.futures\ndef f(x):\n"
    "    with concurrent.futures.ThreadPoolExecutor(2) as pool: return sum(pool.map(int, [x, x]))",
    "by the library itself": "import datetime\ndef f(x): return datetime.datetime.strptime('2020', '%Y').year",
    "a codec": "def f(x): return 'ü'.encode('latin-1').decode('cp1252')",
    "with a thread": "import threading\ndef f(x):\n    t = threading.Thread(target=lambda: None)\n"
    "    t.start()\n    t.join()\n    return x",
}


def test_what_a_source_names_is_there_when_it_runs(tmp_path: Path) -> None:
    got = probe(tmp_path, **{name.replace(" ", "_"): source for name, source in NAMED.items()})
    assert {name: answer for name, answer in got.items() if answer[0] != "ok"} == {}


LATE = {
    "by name": "import importlib\ndef f(x): return importlib.import_module('colorsys')",
    "in source of its own": "def f(x):\n    exec('import colorsys')",
}


def test_an_import_that_the_source_does_not_name_is_one_clear_feedback(tmp_path: Path) -> None:
    got = probe(tmp_path, **{name.replace(" ", "_"): source for name, source in LATE.items()})
    for phase, message, _ in got.values():
        assert phase == "call"
        assert message == (
            "ModuleNotFoundError: colorsys cannot be imported now: a program has no files while it runs. Name the "
            "module in an import statement (import colorsys); those are made before the program starts"
        )


def test_what_cannot_be_imported_is_told_at_its_line_and_in_the_words_of_python(tmp_path: Path) -> None:
    got = probe(
        tmp_path,
        missing="import math\nimport nowhere.at_all\ndef f(x): pass",
        ending="import math\n\nimport idlelib.idle_test.nowhere\ndef f(x): pass",
        main="import this\nimport unittest.__main__\ndef f(x): pass",
    )
    assert got["missing"] == ["compile", "ModuleNotFoundError: No module named 'nowhere'", 2]
    assert got["ending"][0] == "compile" and got["ending"][2] == 3
    assert got["main"][0] == "compile" and "unittest.__main__ cannot be imported here: SystemExit" in got["main"][1]


def test_a_task_that_declares_files_can_import_while_it_runs(tmp_path: Path) -> None:
    got = probe(tmp_path, needs=("files",), **{name.replace(" ", "_"): source for name, source in LATE.items()})
    assert [answer[0] for answer in got.values()] == ["output", "ok"], got


LIBRARIES = {
    "numpy": """
        import numpy as np
        def f(x):
            rng = np.random.default_rng(1)
            a = rng.normal(size=(40, 40))
            q, r = np.linalg.qr(a)
            np.fft.fft(a), np.linalg.svd(a), np.linalg.eig(a), np.sort(a), np.unique(a), np.einsum("ij,jk", a, a)
            np.polynomial.Polynomial([1, 2, 3])(2.0), np.ma.masked_array(a, a > 0).mean(), np.array2string(a)
            np.datetime64("2020-01-01") + np.timedelta64(1, "D"), np.char.upper(["a"]), np.rec.array([(1, 2.0)])
            np.set_printoptions(precision=3), str(a), repr(a), np.vectorize(abs)(a), np.nanmedian(a), np.histogram(a)
            return bool(np.allclose(q @ r, a))
        """,
    "sets": """
        import numpy as np
        def f(x):
            a, b = np.arange(5), np.arange(3, 8)
            found = np.unique(a), np.isin(a, b), np.union1d(a, b), np.setdiff1d(a, b), np.intersect1d(a, b)
            return int(found[3].sum() + np.setxor1d(a, b).sum())
        """,
    "scipy": """
        import numpy as np, scipy
        from scipy import optimize, sparse
        import scipy.sparse.linalg as sl
        def f(x):
            a = np.arange(12.0).reshape(4, 3)
            optimize.minimize(lambda v: ((v - 1) ** 2).sum(), np.zeros(3), method="L-BFGS-B")
            optimize.minimize(lambda v: ((v - 1) ** 2).sum(), np.zeros(3), method="SLSQP")
            optimize.linprog([1, 1], A_ub=[[-1, 0], [0, -1]], b_ub=[-1, -2])
            optimize.milp([1, 1], integrality=[1, 1], bounds=optimize.Bounds(1, 3))
            optimize.linear_sum_assignment(a), optimize.brute(lambda v: v[0] ** 2, ((-1, 1),), Ns=3)
            optimize.differential_evolution(lambda v: v[0] ** 2, [(-1, 1)], maxiter=2)
            optimize.dual_annealing(lambda v: v[0] ** 2, [(-1, 1)], maxiter=2)
            optimize.shgo(lambda v: v[0] ** 2, [(-1, 1)], sampling_method="sobol")
            scipy.linalg.logm(np.eye(3)), scipy.linalg.sqrtm(np.eye(3)), scipy.linalg.pascal(3)
            sl.spsolve(sparse.eye(3).tocsc(), np.ones(3))
            sparse.csgraph.minimum_spanning_tree(sparse.csr_matrix(a[:3]))
            scipy.spatial.cKDTree(a).query(a[0]), scipy.spatial.ConvexHull(np.array([[0, 0], [1, 0], [0, 1], [1, 1]]))
            scipy.stats.norm.cdf(0.3), scipy.special.gamma(2.5)
            scipy.interpolate.CubicSpline([0, 1, 2], [0, 1, 4])(1.5)
            scipy.integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0])
            scipy.signal.savgol_filter(np.arange(9.0), 5, 2)
            scipy.cluster.vq.kmeans2(a, 2, seed=1, minit="++"), scipy.ndimage.gaussian_filter(a, 1), scipy.fft.dct(a)
            return round(float(scipy.linalg.det(np.eye(3))), 6)
        """,
    "standard": """
        import abc, array, bisect, calendar, collections, contextlib, copy, dataclasses, datetime, decimal, enum
        import fractions, functools, graphlib, hashlib, heapq, io, itertools, json, logging, math, numbers, operator
        import pprint, queue, random, re, statistics, string, struct, textwrap, threading, time, traceback, types
        import cmath, concurrent.futures, difflib, locale, os, secrets, signal, sys, typing, unicodedata, uuid
        import warnings, weakref, zlib
        @dataclasses.dataclass(order=True)
        class Item:
            cost: float
            name: str = dataclasses.field(compare=False, default="")
        def f(x):
            heap = [Item(random.random()) for _ in range(9)]
            heapq.heapify(heap)
            warnings.warn("odd"), logging.warning("odd"), print("text"), pprint.pformat(heap), sys.stdout.flush()
            statistics.quantiles(range(9)), statistics.NormalDist().cdf(1)
            decimal.Decimal(2).sqrt(), fractions.Fraction(0.5)
            datetime.datetime.now().isoformat(), time.localtime(), time.strftime("%c"), calendar.monthrange(2024, 2)
            json.loads(json.dumps({"a": [1, 2.5]})), re.sub("a", "b", "aaa")
            hashlib.sha256(b"x").hexdigest(), uuid.uuid4()
            copy.deepcopy(heap), functools.lru_cache(len), "{:>10.3f}".format(1.5), "\\N{GREEK SMALL LETTER ALPHA}"
            secrets.token_hex(4), os.urandom(4), random.SystemRandom().random()
            time.process_time(), time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(math.sqrt, range(20)))
            signal.signal(signal.SIGALRM, lambda *a: None), signal.setitimer(signal.ITIMER_REAL, 0.01), time.sleep(0.02)
            try:
                1 / 0
            except ZeroDivisionError:
                traceback.format_exc()
            big = [bytes(1 << 20) for _ in range(64)]
            return len(big) + os.getpid() * 0
        """,
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_usual_libraries_work_without_files_and_processes(tmp_path: Path, name: str) -> None:
    answer = probe(tmp_path, wall=60.0, cpu=60, **{name: LIBRARIES[name]})[name]
    assert answer[0] == "ok", answer
