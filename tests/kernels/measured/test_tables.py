"""Folders of operator tables that cannot be used, and what is said about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.errors import DataError
from serq.kernels.catalogue.models import ModelShape, model_named
from serq.kernels.measured.tables import OperatorTables
from serq.kernels.measured.yaml_subset import read_mapping
from tests.kernels.measured.tiny_tables import (
    ATTENTION,
    DENSE,
    EXPERTS,
    QWEN,
    SKEW,
    SKEW_META,
    executor,
    write_tables,
)
from tests.shared import shared

NAMES = {
    "meta": "meta.yaml",
    "dense": "tp1/dense.csv",
    "attention": "tp1/attention.csv",
    "skew": "tp1/skew_fit.csv",
}


def fault(folder: Path, model: ModelShape = DENSE, **files: str) -> str:
    write_tables(folder, {NAMES[name]: text for name, text in files.items()})
    with pytest.raises(DataError) as caught:
        OperatorTables.read(folder, model)
    return str(caught.value).replace(f"{folder}/", "")


def test_provenance(tmp_path: Path) -> None:
    write_tables(tmp_path)
    provenance = OperatorTables.read(tmp_path, DENSE).provenance
    assert (provenance.model, provenance.gpu, provenance.engine_version) == ("tiny", "a GPU", "0.19.0")
    assert provenance.measured_at == ""


def test_files_and_rows(tmp_path: Path) -> None:
    header = "layer,tokens,time_us\n"
    worded = fault(tmp_path, dense=header + "embedding,1,x\n")
    assert worded == "tp1/dense.csv:2: time_us 'x' is not a finite number of at least 0"
    assert fault(tmp_path, dense=header + "embedding,1,-1\n").startswith("tp1/dense.csv:2: time_us '-1'")
    assert fault(tmp_path, dense=header + "embedding,1\n").startswith("tp1/dense.csv:2: expected 3 fields")
    assert fault(tmp_path, dense="layer,tokens\n").startswith("tp1/dense.csv:1: no column time_us")
    assert fault(tmp_path, dense=header).startswith("tp1/dense.csv:1: no row")
    twice = header + "embedding,1,1\nembedding,1,2\n"
    assert fault(tmp_path, dense=twice).startswith("tp1/dense.csv:3: embedding at tokens 1")
    write_tables(tmp_path)
    again = fault(
        tmp_path, dense=(tmp_path / "tp1/dense.csv").read_text(), attention=ATTENTION + "32,64,1,200,7\n"
    )
    assert again.startswith("tp1/attention.csv:18: this point")


def test_columns_in_another_order_and_further_ones(tmp_path: Path) -> None:
    rows = [row.split(",") for row in ATTENTION.splitlines()]
    shuffled = "".join(f"{t},note,{d},{n},{k},{c}\n" for c, k, n, d, t in rows)
    executor(tmp_path, files={"tp1/attention.csv": shuffled})


def test_tables_of_another_model(tmp_path: Path) -> None:
    layers = ("embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj")
    without = "layer,tokens,time_us\n" + "".join(f"{name},1,1\n" for name in layers)
    assert "no rows of final_layernorm, gate_up_proj, act_fn, down_proj" in fault(tmp_path, dense=without)
    assert "qk_norm" in fault(tmp_path, QWEN, dense=without)
    heads = "tp_degrees: [1, 2]\nengine_effective:\n  hf_overrides:\n    num_attention_heads: 3\n"
    assert "num_attention_heads 3, which is no shard of the 4 of tiny" in fault(tmp_path, meta=heads)
    halves = heads.replace(": 3", ": 2") + "    num_key_value_heads: 1\n"
    executor(tmp_path, files={"meta.yaml": halves})


def test_missing_parts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        OperatorTables.read(tmp_path / "absent", DENSE)
    write_tables(tmp_path)
    with pytest.raises(DataError, match="no tables for tensor parallelism 4, only 1"):
        OperatorTables.read(tmp_path, DENSE, 4)
    (tmp_path / "meta.yaml").unlink()
    with pytest.raises(DataError, match=r"meta\.yaml: no such file"):
        OperatorTables.read(tmp_path, DENSE)
    write_tables(tmp_path, degree=2)
    with pytest.raises(DataError, match="cut over 2 devices were not measured"):
        OperatorTables.read(tmp_path, EXPERTS, 2)


def test_skew_that_meta_does_not_explain(tmp_path: Path) -> None:
    meta = SKEW_META.format(enabled="true")
    assert "skew_fit.csv:2: n_label 'n<=9'" in fault(tmp_path, meta=meta, skew=SKEW.replace("n<=2", "n<=9"))
    assert "per_tp has no `1`" in fault(tmp_path, meta=meta.replace("    1:", "    7:"), skew=SKEW)
    odd = meta.replace("[low, high]", "[low]")
    assert "skew_rate_bins and skew_rate_labels" in fault(tmp_path, meta=odd, skew=SKEW)
    wordy = meta.replace("0.25", "a quarter")
    assert "alpha_default is not a number" in fault(tmp_path, meta=wordy, skew=SKEW)


def test_the_part_of_yaml_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "meta.yaml"
    path.write_text(
        "# tables\n---\na: 1\nb: '1'\nc: [1, 2.5, 'x, y',\n  z]\nd:\n  e: true\n  f: a b: c\n  1: {}\n"
        "g:\n- x\n- 2\nh:\ni: 2026-04-24T12:35:08  # when\n"
    )
    assert read_mapping(path) == {
        "a": 1,
        "b": "1",
        "c": [1, 2.5, "x, y", "z"],
        "d": {"e": True, "f": "a b: c", "1": {}},
        "g": ["x", 2],
        "h": None,
        "i": "2026-04-24T12:35:08",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x 1\n", ":1: `&`"),
        ("a: 1\n b: 2\n", ":2: is indented"),
        ("a: 1\na: 2\n", ":2: `a` stands twice"),
        ("a: [1\n", ":1: `\\[` is not closed"),
        ("a: {b: 1}\n", ":1: `{`"),
        ("nothing\n", ":1: is not `key: value`"),
        ("- 1\n", "holds a list"),
        ("", "holds nothing"),
    ],
)
def test_yaml_that_is_not_read(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "meta.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=reason):
        read_mapping(path)


@pytest.mark.parametrize(
    ("name", "degree"),
    [
        ("RTX4090/Llama-3.1-8B", 1),
        ("RTXPRO6000/Qwen3-32B", 2),
        ("RTXPRO6000/Qwen3-30B-A3B-Instruct-2507", 1),
    ],
)
def test_the_handed_tables_are_read(name: str, degree: int) -> None:
    folder = shared("data", "measured", name, "tables")
    model = model_named(name.rpartition("/")[2])
    assert model is not None
    tables = OperatorTables.read(folder, model, degree)
    assert tables.provenance.engine_version == "0.19.0"
    assert (tables.skew is None) == name.startswith("RTX4090")
