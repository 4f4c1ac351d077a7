"""What `day0 run` shows in a terminal: a view of its JSON."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

WHOLE = ("ttft_ms", "tpot_ms", "itl_ms", "e2el_ms")
RATES = ("request_throughput", "output_throughput", "total_token_throughput")
SECONDS = ("load_s", "compile_s", "graph_capture_s")


def shown(text: str) -> str:
    """Text without the control characters that would move a terminal's cursor or colours."""
    return "".join(
        mark if mark.isprintable() or mark in "\n\t" else mark.encode("unicode_escape").decode()
        for mark in text
    )


def report(data: Mapping[str, Any]) -> RenderableType:
    """Texts and figures."""
    return Group(texts(data), "", figures(data))


def texts(data: Mapping[str, Any]) -> RenderableType:
    """Each prompt's continuation; ids where there is no text."""
    outputs = data["outputs"]
    lines = []
    for number, output in enumerate(outputs):
        body = output["text"]
        body = " ".join(map(str, output["ids"])) if body is None else shown(body)
        label = f"[{number}] " if len(outputs) > 1 else ""
        lines.append(Text(f"{label}{body} ({output['finish_reason']})"))
    return Group(*lines)


def prepared(data: Mapping[str, Any]) -> RenderableType:
    """What --prepare did."""
    found = data["prepared"]
    if not found["steps"]:
        return Text(f"{data['model']['id']}: on {data['device']} nothing is compiled beforehand")
    return Text(
        f"{data['model']['id']} is ready after {found['seconds']:,.1f} s: {found['steps']} steps "
        f"of padding, {found['compiled']} kernels compiled and {found['loaded']} loaded in "
        f"{found['compile_s']:,.1f} s, graphs captured in {found['graph_capture_s']:,.1f} s; "
        f"kernels lie in {found['kernel_cache']}"
    )


def figures(data: Mapping[str, Any]) -> RenderableType:
    """Times, rates and the implementation table."""
    metrics = data["metrics"]
    model = data["model"]
    head = (
        f"{model['id']}: {model['layers']} layers, {data['recipe']}, backend {data['backend']} "
        f"on {data['device']}; {metrics['completed']} requests, "
        f"{metrics['total_input_tokens']} tokens in, {metrics['total_output_tokens']} out"
    )
    times = Table("", "mean", "median", "p90", "p99", "cold", "warm", box=None, pad_edge=False)
    for column in times.columns[1:]:
        column.justify = "right"
    for name in WHOLE:
        words = ("mean", "median", "p90", "p99", "cold", "warm")
        times.add_row(name, *(_number(metrics.get(f"{word}_{name}")) for word in words))
    rates = ", ".join(f"{name} {_number(metrics[name])}/s" for name in RATES)
    peak = metrics["peak_memory_bytes"]
    memory = "unknown" if peak is None else f"{peak / 2**20:,.0f} MiB ({metrics['peak_memory_of']})"
    seconds = ", ".join(f"{name} {_number(metrics[name])}" for name in SECONDS)
    others = (
        f"{seconds}, jit_compiles_after_ready {metrics['jit_compiles_after_ready']}, "
        f"peak memory {memory}"
    )
    launches = data["launches"]
    kinds = ", ".join(f"{one['kind']} {one['launches']}" for one in launches["by_layer_kind"])
    step = f"decode on {launches['of']}: {launches['step']:,} launches ({kinds})"
    if metrics["decode_floor_ms"] is not None:
        step += f"; floor {metrics['decode_floor_ms']:,.3g} ms"
    if metrics["decode_floor_share"] is not None:
        step += f", {100 * metrics['decode_floor_share']:.0f} % of the median tpot"
    if data["expert_load"]:
        step += "\n" + _experts(data["expert_load"])
    lines = [Text(others), Text(step)]
    if data["speculation"] is not None:
        lines.append(Text(drafts(data)))
    if "prefix_cache_hits" in metrics:
        lines.append(Text(reuse(metrics)))
    table = Table("family", "impl", "formats", "ops", box=None, pad_edge=False)
    table.columns[3].justify = "right"
    for entry in data["implementations"]:
        formats = ", ".join(entry["formats"])
        table.add_row(entry["family"], entry["impl"], formats, str(entry["count"]))
    return Group(Text(head), times, Text(rates), *lines, "", table)


def drafts(data: Mapping[str, Any]) -> str:
    """What speculation gave."""
    metrics, asked = data["metrics"], data["speculation"]
    rates = metrics["spec_decode_per_position_acceptance_rates"]
    return (
        f"drafts of {asked['source']}, {asked['draft_tokens']} tokens: acceptance length "
        f"{_number(metrics['spec_decode_acceptance_length'])}, accepted "
        f"{metrics['spec_decode_accepted_tokens']} of {metrics['spec_decode_draft_tokens']}, by "
        f"position {' '.join(map(_number, rates))}; verify step "
        f"{_number(metrics['median_verify_step_ms'])} ms, decode step "
        f"{_number(metrics['median_decode_step_ms'])} ms (medians), floor of a verify step "
        f"{_number(metrics['verify_floor_ms'])} ms"
    )


def reuse(metrics: Mapping[str, Any]) -> str:
    """What earlier prefixes saved."""
    rate, held = metrics["prefix_cache_hit_rate"], metrics["prefix_cache_bytes"]
    return (
        f"prefix cache: {metrics['prefix_cache_hits']} hits, "
        f"{metrics['prefix_cache_tokens_saved']:,} prompt tokens saved "
        f"({'-' if rate is None else f'{100 * rate:.0f} %'}), {held / 2**20:,.1f} MiB held, "
        f"{metrics['prefix_cache_state_bytes'] / 2**20:,.1f} MiB of it states"
    )


def _experts(rows: list[Mapping[str, Any]]) -> str:
    """The most uneven layers, by expert and by rank."""
    expert = max(rows, key=lambda row: row["busiest_expert"])
    said = (
        f"experts: the busiest {expert['busiest_expert']:.2f} of the mean (layer {expert['layer']})"
    )
    if len(rows[0]["by_rank"]) == 1:
        return said
    rank = max(rows, key=lambda row: row["busiest_rank"])
    return f"{said}, the busiest rank {rank['busiest_rank']:.2f} (layer {rank['layer']})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
