# SPDX-License-Identifier: Apache-2.0
"""The explorer's server: what it gives, and what it refuses to whom."""

from __future__ import annotations

import csv
import http.client
import io
import json
import re
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unbraid as ub
from unbraid.codes.codes import CodeStore
from unbraid.codes.latent_names import NAMES, latent_names
from unbraid.commands.explore import Explorer
from unbraid.commands.run import Run, open_run

from ...damage import making


class Site:
    """A served explorer, asked with any header."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.port = int(explorer.url.rpartition(":")[2].strip("/"))
        self.page = self.get("/")[1].decode()
        found = re.search(r'name="unbraid-token" content="([^"]+)"', self.page)
        assert found
        self.token = found[1]

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        line.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            line.putheader(name.replace("_", "-"), value)
        if body is not None:
            line.putheader("Content-Length", str(len(body)))
        line.endheaders(body)
        answer = line.getresponse()
        found = answer.status, answer.read(), dict(answer.headers)
        line.close()
        return found

    def get(self, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        return self.ask("GET", path, **headers)

    def name(self, record: Any, **headers: str) -> tuple[int, bytes]:
        given = {"X_Unbraid_Token": self.token, **headers}
        return self.ask("POST", "/names", json.dumps(record).encode(), **given)[:2]


@pytest.fixture
def run(explored: Run, tmp_path: Path) -> Run:
    return open_run(shutil.copytree(explored.path, tmp_path / "run"), device="cpu")


@pytest.fixture
def site(run: Run) -> Iterator[Site]:
    explorer = ub.explore(run.path, wait=False, quiet=True)
    yield Site(explorer)
    explorer.close()


def record_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="population">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def header_of(content: bytes) -> dict[str, Any]:
    size = int.from_bytes(content[:4], "little")
    return json.loads(content[4 : 4 + size])


def test_the_page_holds_the_population(site: Site, run: Run):
    status, _, headers = site.get("/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert record_of(site.page)["rows"]["key"] == [str(one) for one in run.members["member"]]


def test_a_model_is_given_by_its_key(site: Site, run: Run):
    status, content, _ = site.get("/model/3")
    assert status == 200
    assert header_of(content)["record"]["member"] == 3
    assert site.get("/model/6")[0] == 404


def test_an_image_is_given_by_its_factors(site: Site, run: Run):
    status, content, _ = site.get("/image/1-7-5")
    assert status == 200
    grid = run.dataset.grid
    image = run.dataset.images(grid.to_index([[1, 7, 5]]))[0]
    assert np.array_equal(np.frombuffer(content, np.uint8).reshape(image.shape), image)


@pytest.mark.parametrize("path", ["/image/1-7", "/image/2-0-0", "/image/0-0-6", "/image/9-9-9-9"])
def test_factors_that_are_not_there_are_refused(site: Site, path: str):
    status, content, _ = site.get(path)
    assert status == 400
    assert content.decode().startswith("factors must be 3 whole numbers below 2, 8, 6")


def test_the_table_of_codes_has_the_names(site: Site, run: Run):
    assert site.name({"model": "2", "latent": 1, "name": "tilt, or so"})[0] == 200
    rows = list(csv.reader(io.StringIO(site.get("/codes/2.csv")[1].decode())))
    names = ["image", *run.dataset.factor_names, "latent_0", "latent_1: tilt, or so", "latent_2"]
    assert rows[0][: len(names)] == names
    codes = CodeStore(run.folder).load(2)
    assert np.array_equal(np.array(rows[1:], float)[:, -5:].astype(np.float32), codes.mean)
    assert [int(row[0]) for row in rows[1:]] == codes.indices.tolist()


def test_names_are_kept_with_the_run(site: Site, run: Run):
    status, content = site.name({"model": "2", "latent": 1, "name": "  <b>x</b> "})
    assert (status, json.loads(content)) == (200, {"1": "<b>x</b>"})
    assert latent_names(run.folder) == {2: {1: "<b>x</b>"}}
    assert header_of(site.get("/model/2")[1])["record"]["names"] == {"1": "<b>x</b>"}
    assert json.loads(site.name({"model": "2", "latent": 1, "name": ""})[1]) == {}
    assert latent_names(run.folder) == {}


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ({"model": "2", "latent": 5, "name": "x"}, 400),
        ({"model": "2", "latent": 0, "name": "x" * 61}, 400),
        ({"model": "2", "latent": "0", "name": "x"}, 400),
        ({"model": "2", "name": "x"}, 400),
        ({"model": "99", "latent": 0, "name": "x"}, 404),
        ([1, 2], 400),
        ("x", 400),
    ],
)
def test_nonsense_names_nothing(site: Site, run: Run, record: Any, status: int):
    assert site.name(record)[0] == status
    assert not (run.path / NAMES).exists()


def test_names_need_the_token_of_the_page(site: Site, run: Run):
    given = {"model": "2", "latent": 0, "name": "x"}
    assert site.name(given, X_Unbraid_Token="")[0] == 403
    assert site.name(given, X_Unbraid_Token="ü" * 32)[0] == 403
    assert site.ask("POST", "/names", b"{}")[0] == 403
    assert not (run.path / NAMES).exists()


def test_a_long_or_torn_body_is_refused(site: Site):
    token = {"X_Unbraid_Token": site.token}
    assert site.ask("POST", "/names", b"x" * 20_000, **token)[0] == 400
    assert site.ask("POST", "/names", b"[" * 9_000, **token)[0] == 400
    assert site.ask("POST", "/names", **token)[0] == 400
    assert site.get("/")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "", "[::1]", "0.0.0.0"]
)
def test_other_hosts_are_refused(site: Site, host: str):
    status, content, _ = site.get("/", Host=host)
    assert status == 403
    assert b"population" not in content


def test_localhost_is_this_machine_too(site: Site):
    assert site.get("/", Host=f"localhost:{site.port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/..",
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/model/..%2f..%2fplan.json",
        "/model/../plan.json",
        "/model/%00",
        "/model/",
        "/model/-1",
        "/codes/../plan.json",
        "/codes/0.csv/..",
        "/plan.json",
        "/image/..",
        "/image/1-2-3-",
        "/image/9999999999999999999999",
        "//evil.example/",
        "http://evil.example/",
        "/names",
        "/" + "a" * 5_000,
    ],
)
def test_nothing_else_is_served(site: Site, path: str):
    status, content, _ = site.get(path)
    assert status in (400, 403, 404)
    assert len(content) < 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(site: Site, method: str):
    assert site.ask(method, "/")[0] == 501


def test_what_a_browser_is_told(site: Site):
    for path in ("/", "/model/0", "/nothing"):
        headers = site.get(path)[2]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers
        assert "Content-Security-Policy" in headers
    assert "frame-ancestors 'none'" in site.get("/")[2]["Content-Security-Policy"]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', site.page)
    assert policy
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]


def test_it_listens_to_this_machine_alone(site: Site):
    server = site.explorer._server
    assert server is not None
    assert server.server_address[0] == "127.0.0.1"
    other = next(
        (
            info[4][0]
            for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
            if not str(info[4][0]).startswith("127.")
        ),
        None,
    )
    if other is not None:
        with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
            socket.create_connection((str(other), site.port), timeout=2)


def test_a_damaged_file_is_told_and_the_rest_is_served(site: Site, run: Run):
    path = run.path / "codes" / "member-00001.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)
    status, told, _ = site.get("/model/1")
    assert status == 500
    assert "member-00001.safetensors is damaged" in told.decode()
    assert site.get("/model/2")[0] == 200


def test_a_taken_port_is_told(site: Site, run: Run):
    with pytest.raises(ub.InputError, match="port must be one that can be used"):
        ub.explore(run.path, port=site.port, wait=False, quiet=True)


def test_after_closing_nobody_answers(run: Run):
    explorer = ub.explore(run.path, wait=False, quiet=True)
    port = Site(explorer).port
    explorer.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=2)


def test_a_discovery_writes_its_table_again(discovery: Path):
    explorer = ub.explore(discovery, wait=False, quiet=True)
    site = Site(explorer)
    record = record_of(site.page)
    key = record["start"]["model"]
    before = (discovery / "codes.csv").read_text().splitlines()[0]
    latents = header_of(site.get(f"/model/{key}")[1])["record"]["latents"]
    for one in latents:
        name = f"tilt {one['number']}"
        status, _ = site.name({"model": key, "latent": one["number"], "name": name})
        assert status == 200
    explorer.close()
    after = (discovery / "codes.csv").read_text().splitlines()[0]
    found = [column for column in before.split(",")[2:]]
    assert len(after.split(",")) == len(found) + 2
    assert all("tilt_" in column for column in after.split(",")[2:])
    again = ub.resume(discovery, quiet=True, device="cpu")
    assert list(again.codes.columns) == after.split(",")  # type: ignore[union-attr]


def test_an_unfinished_discovery_is_not_trained_by_a_name(tmp_path: Path, small_discoveries: None):
    making.stopped_discovery("sprites", str(tmp_path / "stopped"))
    with pytest.raises(ub.InputError, match="finished discovery"):
        ub.explore(tmp_path / "stopped", wait=False, quiet=True)


def test_many_names_at_once_are_all_kept(site: Site, run: Run):
    def name(place: int) -> int:
        return site.name({"model": "0", "latent": place % 5, "name": f"n{place}"})[0]

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(name, range(16))) == {200}
    assert set(latent_names(run.folder)[0]) == {0, 1, 2, 3, 4}


def test_true_is_no_latent(site: Site):
    assert site.name({"model": "2", "latent": True, "name": "x"})[0] == 400


def test_a_port_can_be_used_again_at_once(run: Run):
    explorer = ub.explore(run.path, wait=False, quiet=True)
    port = Site(explorer).port
    explorer.close()
    again = ub.explore(run.path, port=port, wait=False, quiet=True)
    assert Site(again).get("/")[0] == 200
    again.close()
