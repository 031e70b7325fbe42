"""Recipes: model sizes and curricula.  `cpu`, then `cpu-finish` trained the shipped file; `graph`, then `graph-finish` fine-tune it for dependency trees, `graph-varied` for other graphs, `graph-gpu` the same with more tokens on a GPU; `gpu` is the full recipe for one GPU; `smoke` is for tests."""
import dataclasses
import functools
from dataclasses import dataclass, field

from .graphs import Mix
from .model import ModelConfig
from .scenes import Style


@dataclass
class Stage:
    """One step of the curriculum.  It ends when every kind in `gate` has its first answer token right this often."""
    chunks: tuple
    weights: dict
    style: Style
    questions: int
    gate: dict = field(default_factory=dict)
    most: float = 1.0          # of all tokens: leave the stage then in any case
    graph: Mix = None          # questions over relation paths among the others


@dataclass
class Recipe:
    name: str
    model: ModelConfig
    vocab: int
    tokens: float              # budget
    step_tokens: int           # tokens in an optimizer step (about)
    micro_tokens: int          # tokens in one forward and backward pass
    lr_muon: float = 0.02
    lr_adam: float = 2e-3
    lr_embed: float = 5e-4
    decay: float = 0.35        # last part of the budget, learning rate falls linearly
    warmup: int = 50
    gaps: float = 0.25         # share of prompts with gaps in the positions
    graft: bool = True
    hint: float = 0.5          # weight of the hints (hints.py) at the start; a tenth of it from hint_until of the budget on
    hint_until: float = 0.7
    stages: list = field(default_factory=list)


def curriculum():
    s = functools.partial(Style, wide=0.5, few=0.4)
    return [
        Stage((3, 4), dict(single=1), s((1, 1), 0, 0.3, 0.1, (3, 4), none=0.1), 8, dict(single=0.85), 0.12),
        Stage((3, 4), dict(single=2, path=1), s((1, 2), 0, 0.3, 0.15, (2, 3), none=0.3), 10, dict(single=0.88, path1=0.88), 0.22),
        Stage((4, 4), dict(single=1, path=1, bridge=1, alias=3, header=2), s((1, 1), 0, 0.4, 0.15, (2, 2), none=0.5), 12,
              dict(single=0.88, alias=0.8, header=0.8), 0.35),
        Stage((4, 6), dict(single=1, path=1.5, bridge=2, alias=3, header=1.5, compare=0.3), s((1, 2), 0.05, 0.5, 0.2, (2, 3), none=0.6, mark=0.1), 12,
              dict(single=0.9, alias=0.85, header=0.85), 0.5),
        Stage((7, 8), dict(single=2, path=2, bridge=2, alias=2, header=1.5, compare=0.3),
              s((1, 3), 0.12, 0.6, 0.2, (2, 3), none=0.4, table=0.05, mark=0.2, whole=0.25), 16),
    ]


def finish():
    """The last stage again with more frames, and with sentences about a role in any form: for a model that has learned the rest."""
    last = curriculum()[-1]
    style = dataclasses.replace(last.style, none=0.3, more=0.3, loose=0.3)
    return [dataclasses.replace(last, weights=dict(last.weights, alias=4, compare=1), style=style)]


def long_curriculum():
    """Goes on to chunks of up to 200 tokens, tables, columns and sentences in the hard order; for the GPU."""
    first = curriculum()
    for st, most in zip(first, (0.02, 0.05, 0.1, 0.15, 0.4)):
        st.most = most
    first[-1].gate = dict(single=0.95, path1=0.95, bridge=0.85, alias=0.9, header=0.9)
    return first + [
        Stage((4, 8), dict(single=3, path=2, bridge=2, alias=2, header=2, columns=0.5, compare=1),
              Style((1, 5), 0.3, 0.6, 0.2, (2, 4), none=0.6, table=0.1, late=0.15, mark=0.2, whole=0.2, wide=0.5, few=0.4), 16)]


def graph_stages():
    """The data of `finish` and questions over relation paths, as trees and as lines; first a few short paths, then as many as are retrieved."""
    last = finish()[0]
    return [dataclasses.replace(last, graph=Mix(0.8, 0.7, tokens=250, most_paths=6, hops=(1,)), gate=dict(hop1=0.8, tree1=0.9), most=0.3),
            dataclasses.replace(last, graph=Mix(0.8, 0.6, tokens=450, most_paths=14, hops=(1, 2)), gate=dict(hop1=0.85, hop2=0.6, tree2=0.9), most=0.6),
            dataclasses.replace(last, graph=Mix(0.75))]


def graph_finish():
    """The last stage of `graph` again with more questions of one hop and of tree2, and lines as long as trees."""
    last = graph_stages()[-1]
    return [dataclasses.replace(last, graph=Mix(0.85, 0.6, dict(exact=6, shifted=2, linear=2), tokens=550, lines=(1.0, 30), favour="tree2"))]


def graph_varied():
    """The same with two thirds of the tasks varied: other graphs, names, relations and wording; lines as often as trees."""
    last = graph_stages()[-1]
    return [dataclasses.replace(last, graph=Mix(0.95, 0.65, dict(exact=3, shifted=2, linear=5), tokens=400, lines=(1.0, 30), varied=0.65, other=0.5))]


RECIPES = {
    "cpu": Recipe("cpu", ModelConfig(hidden_size=128, layers=6, heads=4, kv_heads=2, ffn=192), 2048, 23e6, 4096, 2048, decay=0.5,
                  stages=curriculum()),
    "cpu-finish": Recipe("cpu-finish", ModelConfig(hidden_size=128, layers=6, heads=4, kv_heads=2, ffn=192), 2048, 8e6, 4096, 2048,
                         lr_muon=0.01, lr_adam=1e-3, lr_embed=2.5e-4, decay=0.95, hint=0.1, stages=finish()),
    "graph": Recipe("graph", ModelConfig(hidden_size=128, layers=6, heads=4, kv_heads=2, ffn=192), 2048, 8e6, 3072, 3072,
                    lr_muon=0.01, lr_adam=1e-3, lr_embed=5e-4, decay=0.6, warmup=20, hint=0.3, stages=graph_stages()),
    "graph-finish": Recipe("graph-finish", ModelConfig(hidden_size=128, layers=6, heads=4, kv_heads=2, ffn=192), 2048, 8e6, 3072, 3072,
                           lr_muon=0.005, lr_adam=6e-4, lr_embed=3e-4, decay=0.95, warmup=20, hint=0.15, hint_until=1.0, stages=graph_finish()),
    "graph-varied": Recipe("graph-varied", ModelConfig(hidden_size=128, layers=6, heads=4, kv_heads=2, ffn=192), 2048, 8e6, 1536, 3072,
                           lr_muon=0.008, lr_adam=8e-4, lr_embed=5e-4, decay=0.75, warmup=20, hint=0.2, hint_until=1.0, stages=graph_varied()),
    "graph-gpu": Recipe("graph-gpu", ModelConfig(hidden_size=128, layers=6, heads=4, kv_heads=2, ffn=192), 2048, 40e6, 24576, 24576,
                        lr_muon=0.008, lr_adam=8e-4, lr_embed=5e-4, decay=0.75, warmup=20, hint=0.2, hint_until=1.0, stages=graph_varied()),
    "gpu": Recipe("gpu", ModelConfig(hidden_size=256, layers=8, heads=8, kv_heads=4, ffn=704), 2048, 400e6, 131072, 65536,
                  warmup=100, decay=0.5, stages=long_curriculum()),
    "smoke": Recipe("smoke", ModelConfig(hidden_size=64, layers=2, heads=2, kv_heads=1, ffn=64), 1536, 2e5, 4096, 2048, warmup=5,
                    stages=curriculum()[:2]),
}
