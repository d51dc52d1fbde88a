"""The page at / of the HTTP port, and pages of other sites, in headless Chromium."""

import base64
import contextlib
import http.server
import json
import threading

import numpy as np
import pytest

from harness.browser import PROGRAM, Browser
from harness.server import Server
from harness.waiting import wait_until
from test_http import FLOATS, TOKEN

if PROGRAM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)
FLAGS = ["--http-listen", "127.0.0.1:0", "--drain-delay", "0", "--payload-bytes-max", "1MiB"]
BYTES = np.random.default_rng(3).integers(0, 256, 100_000).astype(np.uint8)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def web(server_bin, tmp_path_factory):
    with Server(server_bin, tmp_path_factory.mktemp("web"), FLAGS) as server:
        yield server


@pytest.fixture
def page(browser, web):
    browser.open(f"http://{web.http_address}/")
    browser.complaints.clear()
    yield browser
    assert not [text for text in browser.complaints if "status of 4" not in text]


@pytest.fixture
def files(tmp_path):
    """Paths of samples: bytes, and floats."""
    (tmp_path / "bytes").write_bytes(BYTES.tobytes())
    (tmp_path / "floats").write_bytes(FLOATS.tobytes())
    return tmp_path / "bytes", tmp_path / "floats"


def set_fields(page, **values):
    page.run("; ".join(f"$('{name}').value = {json.dumps(value)}" for name, value in values.items()) + "; 0")


def submit(page):
    page.run("$('status').textContent = '', $('form').requestSubmit()")
    await_answer(page)


def await_answer(page):
    page.until("/^(Counted|Not|No) /.test($('status').textContent)")


def shown(page, name):
    """A list of names and numbers, as text."""
    texts = page.run(f"[...$('{name}').children].map(child => child.textContent)")
    return dict(zip(texts[::2], texts[1::2]))


def counts(page):
    page.run("$('table').open = true; fillTable()")
    rows = page.run("[...document.querySelectorAll('td')].map(cell => cell.textContent)")
    return [int(text) for text in rows[2::3]]


def error_at(page, field):
    return page.run(f"$('{field}').getAttribute('aria-invalid') === 'true' && $('{field}-error').textContent")


@pytest.mark.parametrize("bring", ["choose", "drop"])
def test_a_file_is_counted_as_numpy_counts_it(page, files, bring):
    getattr(page, bring)("#body" if bring == "choose" else ".drop", files[0])
    await_answer(page)
    assert page.run("$('title').textContent") == "bytes"
    assert counts(page) == np.histogram(BYTES, 64, (0, 256))[0].tolist()
    assert shown(page, "samples")["samples"] == "100,000"
    statistics = shown(page, "numbers")
    assert float(statistics["mean"]) == BYTES.mean() and float(statistics["maximum"]) == BYTES.max()
    assert shown(page, "receipt")["backend"] == "cpu"
    assert page.run("$('curl').textContent").endswith("/v1/histogram?type=u8&bins=64&statistics=true'")


def test_each_control_has_its_effect(page, files):
    page.choose("#body", files[1])
    await_answer(page)
    set_fields(page, type="f32", bins="7", range="-1:2.5", quantiles="0.25, 0.9")
    submit(page)
    assert counts(page) == np.histogram(FLOATS, 7, (-1, 2.5))[0].tolist()
    statistics = shown(page, "numbers")
    want = np.quantile(FLOATS[(FLOATS >= -1) & (FLOATS <= 2.5)].astype(float), [.25, .9]).tolist()
    assert [float(statistics["quantile 0.25"]), float(statistics["quantile 0.9"])] == want
    assert int(shown(page, "samples")["below"].replace(",", "")) == (FLOATS < -1).sum()
    linear = page.run("document.querySelector('#chart path').getAttribute('d')")
    page.run("$('log').click()")
    assert page.run("document.querySelector('#chart path').getAttribute('d')") != linear
    # By the keyboard: from bin to bin, and Enter in a field that has changed.
    page.run("$('bin').focus(), $('bin').value = 0")
    page.key("ArrowRight", 39)
    assert page.run("$('value').textContent").startswith("[-0.5, 0): ")
    set_fields(page, quantiles="")
    page.run("$('statistics').click()")
    page.until("$('has-statistics').hidden")
    page.run("$('bins').select(), $('bins').focus()")
    page.key("3", 51, "3")
    page.key("Enter", 13, "\r")
    page.until("answer.counts.length === 3")


@pytest.mark.parametrize("fields, at, text", [
    ({"bins": "0"}, "bins", "must be a whole number from 1 to 4294967295, not '0' (BAD_PARAMETER)"),
    ({"range": "2:1"}, "range", "LO is 2"), ({"quantiles": "0.5,x"}, "quantiles", "x"),
    ({"type": "f32", "bins": ""}, "bins", "BAD_"), ({"type": "u64"}, "body", "PARTIAL_SAMPLE"),
    ({"bins": "2000000000"}, "bins", "limit ")])
def test_errors_stand_at_their_fields(page, files, tmp_path, fields, at, text):
    odd = tmp_path / "odd"
    odd.write_bytes(BYTES[:5].tobytes() if at == "body" else BYTES.tobytes())
    page.choose("#body", odd)
    await_answer(page)
    set_fields(page, **fields)
    submit(page)
    assert text in error_at(page, at)
    assert page.run("$('result').hidden")
    set_fields(page, type="u8", bins="4", range="", quantiles="")
    submit(page)
    assert error_at(page, at) is False and page.run("answer.counts.length") == 4


def test_long_files_are_counted_or_refused_at_the_field(page, tmp_path):
    with open(tmp_path / "long", "wb") as long:
        long.truncate(20 << 20)
    page.choose("#body", tmp_path / "long")
    await_answer(page)
    assert counts(page)[0] == 20 << 20
    set_fields(page, type="f64", range="0:1")
    submit(page)
    assert "PAYLOAD_TOO_LARGE, limit 1,048,576" in error_at(page, "statistics")


def test_many_bins_are_drawn(page, files):
    page.choose("#body", files[1])
    await_answer(page)
    set_fields(page, type="f32", bins="65536")
    submit(page)
    assert page.run("answer.counts.length") == 65536
    assert 1000 < page.run("document.querySelector('#chart path').getAttribute('d').length") < 100_000


def test_a_token_is_asked_for_and_sent(browser, start_server, token_file, files):
    tokens = token_file(f"alice {TOKEN}")
    server = start_server(*FLAGS, "--token-file", tokens)
    browser.open(f"http://{server.http_address}/")
    assert browser.run("$('token').hidden")
    browser.choose("#body", files[0])
    await_answer(browser)
    assert "UNAUTHENTICATED" in error_at(browser, "authorization")
    set_fields(browser, authorization=TOKEN)
    submit(browser)
    assert counts(browser) == np.histogram(BYTES, 64, (0, 256))[0].tolist()


def test_a_server_that_is_gone_is_told(browser, start_server, files):
    server = start_server(*FLAGS)
    browser.open(f"http://{server.http_address}/")
    server.stop()
    browser.choose("#body", files[0])
    await_answer(browser)
    assert browser.run("$('status').textContent").startswith("No answer from the server")


def test_fetch_posts_connects_json(page, web):
    """As HTML of the server's own origin does."""
    message = {"payload": base64.b64encode(BYTES.tobytes()).decode(), "spec": {"statistics": True}}
    answer = page.run(f"""fetch('/histogram.v1.HistogramService/Compute', {{method: 'POST',
        headers: {{'Content-Type': 'application/json'}}, body: {json.dumps(json.dumps(message))}}}).then(r => r.json())""")
    assert [int(n) for n in answer["histogram"]["counts"]] == np.bincount(BYTES, minlength=256).tolist()
    assert answer["histogram"]["statistics"]["mean"] == BYTES.mean()


@contextlib.contextmanager
def other_site():
    """The origin of a site with an empty page."""
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()
        thread.join()


CALLS = {
    "plain": ("/v1/histogram", "{method: 'POST', body: 'abc'}"),
    "a form's type": ("/v1/histogram", "{method: 'POST', body: 'abc', headers: {'Content-Type': 'text/plain'}}"),
    "json": ("/histogram.v1.HistogramService/Compute",
             "{method: 'POST', body: '{}', headers: {'Content-Type': 'application/json'}}"),
    "describe": ("/v1/describe", "{}"), "the page": ("/", "{}")}


def test_another_site_can_neither_post_nor_read(browser, web):
    served = lambda: web.metrics().value("histsvc_requests_total", code="OK")
    before = served()
    with other_site() as origin:
        browser.open(origin)
        for path, options in CALLS.values():
            url = f"http://{web.http_address}{path}"
            assert browser.run(f"fetch('{url}', {options}).then(r => r.text(), () => 'refused')") == "refused", path
        url = f"http://{web.http_address}/v1/histogram"
        opaque = f"fetch('{url}', {{method: 'POST', body: 'abc', mode: 'no-cors'}}).then(r => r.type)"
        assert browser.run(opaque) == "opaque"
        browser.run(f"document.body.append(Object.assign(document.createElement('iframe'), "
                    f"{{src: 'http://{web.http_address}/'}}))")
        wait_until(lambda: browser.run("1") and any("frame-ancestors" in text for text in browser.complaints),
                   30, "a refused frame")
    assert served() == before


def test_an_allowed_site_may(browser, start_server):
    with other_site() as origin:
        server = start_server(*FLAGS, "--http-allow-origin", origin)
        browser.open(origin)
        for path, options in CALLS.values():
            url = f"http://{server.http_address}{path}"
            assert browser.run(f"fetch('{url}', {options}).then(r => r.status)") == 200, path
