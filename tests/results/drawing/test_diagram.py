"""What is drawn of a deployment: every way a session can take, once."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

import serq
from serq.cli import main
from serq.results.drawing import as_svg, diagram

ROOT = Path(__file__).parents[3]

PROGRAM = """
pool seats { cap 2; queue by (serial); }
stage desk[2] : fifo;
stage bank : ps(3);
stage rest : delay;
workload { arrive closed(4); }
session {
  hold seats (1) { run desk[0] (1); }
  branch (serial < 2) { run bank (1); } else { run desk[1] (2); end; }
  run rest (1);
  loop { run bank (1); run rest (2); branch (now > 5) { end; } }
}
run { horizon 10; }
"""


def drawn(source=PROGRAM):
    return diagram(serq.compile(source=source).ir)


def test_ways_of_a_session():
    visits = {(way.start, way.end, way.label) for way in drawn().ways if way.kind == "visit"}
    assert visits == {
        ("clients", "desk", "run"),
        ("desk", "bank", "run"),
        ("desk", "desk", "run"),
        ("desk", "clients", ""),
        ("bank", "rest", "run"),
        ("rest", "bank", "run"),
        ("rest", "clients", ""),
    }


def test_boxes_come_in_the_order_of_visits():
    boxes = drawn().boxes
    assert [box.key for box in boxes] == ["clients", "desk", "bank", "rest", "pool seats"]
    assert [box.count for box in boxes] == [1, 2, 1, 1, 1]
    assert list(boxes[0].lines) == ["4 at a time"]
    assert list(boxes[2].lines) == ["ps, capacity 3"]
    assert list(boxes[4].lines) == ["cap 2", "queue by serial"]


def test_pools_are_tied_to_what_is_visited_while_they_are_held():
    holds = [(way.start, way.end) for way in drawn().ways if way.kind == "hold"]
    assert holds == [("pool seats", "desk")]


def test_connectors_and_requests():
    source = """
    stage wire : ps(1);
    connector link : transfer { over wire; work tokens; }
    stage a : vllm { max_model_len 64; num_gpu_blocks 9; kv_connector link; kv_role kv_producer; cost 1; }
    stage b : vllm { max_model_len 64; num_gpu_blocks 9; kv_connector link; kv_role kv_consumer; cost 1;
                     waiting priority; }
    session { request p on a (8, 1); request d on b (8, 4) from p via link; }
    run { horizon 10; }
    """
    ways = [(way.start, way.end, way.kind, way.label) for way in drawn(source).ways]
    assert ways == [
        ("clients", "a", "visit", "request p"),
        ("a", "b", "visit", "request d from p"),
        ("b", "clients", "visit", ""),
        ("a", "wire", "transfer", "link"),
        ("b", "wire", "transfer", "link"),
    ]
    assert "waiting priority" in next(box for box in drawn(source).boxes if box.key == "b").lines


@pytest.mark.parametrize("file", sorted((ROOT / "examples").rglob("*.sq")), ids=lambda file: file.name)
def test_every_example_is_drawn_with_all_it_declares(file):
    program = serq.compile(file)
    svg = as_svg(diagram(program.ir), file.name)
    texts = [
        element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")
    ]
    for declared in (*program.ir.stages, *program.ir.pools):
        assert any(text.split(" × ")[0] == declared.name for text in texts)


def test_text_is_escaped():
    source = "stage s : ps(1 < 2); session { run s (1); } run { horizon 1; }"
    svg = as_svg(drawn(source), "a & b")
    assert "a &amp; b" in svg and "1 &lt; 2" in svg
    ElementTree.fromstring(svg)


def test_the_command(tmp_path):
    file = tmp_path / "p.sq"
    file.write_text(PROGRAM)
    result = CliRunner().invoke(main, ["draw", str(file)])
    assert result.exit_code == 0 and result.stdout.startswith("<svg ")
    written = CliRunner().invoke(main, ["draw", str(file), "-o", str(tmp_path / "d.svg")])
    assert written.exit_code == 0 and (tmp_path / "d.svg").read_text() == result.stdout
    assert CliRunner().invoke(main, ["draw", str(file), "-o", str(tmp_path / "no" / "d.svg")]).exit_code == 1


def test_the_picture_of_the_page_is_as_drawn_now():
    program = serq.compile(ROOT / "examples" / "tutorial" / "5_replicas.sq")
    picture = (ROOT / "docs" / "images" / "deployment.svg").read_text("utf-8")
    assert picture == as_svg(diagram(program.ir), "5_replicas.sq"), (
        "run serq draw -o docs/images/deployment.svg"
    )
