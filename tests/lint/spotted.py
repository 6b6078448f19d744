"""What causes see in a text, asked as the command asks them: only those whose words occur."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from slowtrain.lint import catalogue
from slowtrain.model import Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CLINIC = Path(__file__).parents[2] / "clinic"
# Of scripts that somebody wrote who knew the catalogue and not this code; those called unread were never run.
READ = [f"unread{more}" for more in ("", "_second", "_third", "_fourth", "_fifth", "_sixth", "_seventh")]
STRANGERS = [CLINIC / name for name in ("strangers", *READ)]
CASES = Path(__file__).parents[3] / "shared" / "cases"  # beside the checkout, where there is one
# Of clinic/strangers, those whose cause no text tells, each with what it would take to know.
HIDDEN = {
    "cellscope_densenet": "what XLA compiles",
    "plume_surrogate": "what fusing saves",
    "pumpwear_mlp": "how short a step is",
    "swarm_dqn": "how long packing takes",
    "beam_frames": "the disk's speed",
    "event_surface": "how fast values decay",
    "ward_stays": "how long a file is",
    "relaxometry_fit": "what fusing saves",
    "backgammon_values": "how fast values decay",
    "patent_similarity": "how long sorting takes",
    "podcast_likes": "how many ids a file holds",
    "permafrost_core": "how long smoothing takes",
    "swim_race_times": "how long sorting takes",
    "forklift_dispatch": "how long compressing takes",
    "bottling_line_logs": "how short a file is",
    "geology_seismic_facies": "how long a block's attributes take",
    "gear_mentor": "how short an epoch is",
    "telegraph_code": "how short a step is: XLA gains in a hundred long ones more than it takes to compile them",
}
# What they read when they were new is in docs/lint.md.
MISSED = frozenset(
    "abbey_charters amphora_volumes apiary_hum avalanche_slopes beamline_run bearing beetle_wings bird_clips "
    "book_ratings bookmobile_stops bookplate_pairs bud_break carillon_bells catalyst_yields cheese_folds cheese_rind "
    "chess_endgames claim_letters claims_severity click_trails cobalt_pilgrim cough_screening crate_digger "
    "credit_columns crossword_forge cycling_fatigue dune_photos dustbowl_cipher elevator_queue energy_load_lstm "
    "federated ferret_bazaar ferry_delays flea_market football_xg_mining furnace_stream gait gecko_toes gene_kmers "
    "greenhouse_vents gridworld_ppo harbour_traffic harp_strings heart_rhythm heraldry_shields heron_options "
    "kiln_ledger kmers labyrinth_agent leaf_press leaf_views lift_sensors loom_sonic loom_tension loom_weave "
    "mammo_contrast marimba_rolls mead_tasting mosaic_herring mosaic_tiles_two mosquito_wings moth_trap "
    "museum_tickets nomad_harpsichord orchard_regions orchid_tribunal parish_rolls peat_moisture peptide_spectra "
    "perfume_notes perfume_notes_two phage_hosts piano_continuation pill_shapes playlist_factors playlist_negs "
    "podcast_listeners polymer_braid postcard_jungle postcode_moves promoter_kmers quake_ascii quartz_almanac "
    "quasar_csv radar_nowcast radio_archive rain_gauge reacher recipe_towers reef_chemistry rover_arm saffron_grade "
    "sextant_fixes shelf_backtest shop_interest smartmeter_shards sonar_pings spring_damper surname_origins "
    "tapestry_hourglass tariff_agent ticket_routing ticket_words tide_gauges toll_bridge_strain tram_doors "
    "tulip_bulbs turbine_blades twotower village_wells warehouse_bids well_water whale_upcalls wind_tunnel "
    "zither_phrases unread/depth_refine unread/hotel_ranker unread_fifth/bc_arm unread_fifth/card_fraud "
    "unread_fifth/hnn_double_pendulum unread_fifth/sprite_gan unread_fifth/strip_steel unread_fourth/dialect_chars "
    "unread_fourth/gripper_cloning unread_fourth/oscillator_chain_hnn unread_fourth/parcel_cover "
    "unread_fourth/play_affinity unread_fourth/screenshot_tagger unread_fourth/soccer_scorelines "
    "unread_fourth/store_baskets unread_seventh/cell_atlas unread_seventh/crystal_gap unread_seventh/galaxy_views "
    "unread_seventh/histo_contrast unread_seventh/loan_book unread_seventh/loan_default unread_seventh/loan_hazard "
    "unread_seventh/offline_td3 unread_seventh/parliament_speech unread_seventh/protein_mlm "
    "unread_seventh/radar_nowcast unread_sixth/bearing_sweep unread_sixth/grocery_two_tower "
    "unread_sixth/histo_patches".split()
)
# Of a cured script, what its own comment keeps from being told: a loop that runs op by op on purpose, in both forms.
# Others' cures leave a random walk in Python, a twelfth of what it was; a choice among eighty names; a buffer of
# numbers that is filled in ten milliseconds, or of what was worked on before; weights that a GAN's halves hand over;
# rows that are jittered one by one; a collection after each season of steps; lengths rounded up, so few;
# a map of single rows ahead of a shuffle (which is told of its run as well); letters that are painted one by one.
LEFT = {
    "bike_counts.fixed": "host/eager-step",
    "port_routes.fixed": "input/python-input",
    "ear_tags.fixed": "input/python-input",
    "sluice_flow.fixed": "input/shuffle-fill",
    "rune_gan.fixed": "transfer/per-step-readback",
    "tide_jitter.fixed": "input/per-element-map",
    "hive_agents.fixed": "host/garbage-collection",
    "plankton_net.fixed": "input/shuffle-fill",
    "quake_picker.fixed": "input/shuffle-fill",
    "padded.fixed": "host/retracing",
    "ranker.fixed": "input/per-element-map",
    "parcel_labels.fixed": "input/python-input",
    "barcode_strips.fixed": "input/python-input",
}
HEAD = "import numpy as np\nimport tensorflow as tf\nimport keras\nfrom keras import layers\n"


@dataclass(frozen=True)
class Seen:
    """A cause, where it begins and what it says; the text that its edits make, None without edits."""

    cause: str
    line: int
    says: str
    cured: str | None


def seen(text: str, causes: Iterable[str] | None = None) -> list[Seen]:
    """All that is seen in ``text``, or only ``causes``."""
    source = parse_source("train.py", text)
    assert source is not None
    wanted = {c.id for c in catalogue.causes()} if causes is None else set(causes)
    found: list[Seen] = []
    for cause in catalogue.could_have(text.encode(), wanted):
        found += (_seen(cause.id, spot, text) for spot in cause.spot(source))
    return found


def _seen(cause: str, spot: Spot, text: str) -> Seen:
    source = parse_source("train.py", text)
    assert source is not None
    changed = spot.prescription.edits if spot.prescription is not None else ()
    return Seen(cause, spot.start[0], spot.says, edits.edited_text(source, changed) if changed else None)


def lines(cause: str, text: str) -> list[int]:
    """Lines of the snippet, which gets its imports, where ``cause`` is seen."""
    return [one.line - HEAD.count("\n") for one in seen(HEAD + dedent(text).lstrip("\n"), [cause])]


@dataclass(frozen=True)
class Script:
    name: str
    slow: str
    fixed: str
    causes: tuple[str, ...]
    lines: tuple[int, ...]


def scripts(families: Iterable[str]) -> Iterator[Script]:
    """Labelled slow scripts with a cause of these families; the cases' labels name no lines."""
    labels = {
        CLINIC / "scripts" / name: row for name, row in tomllib.loads((CLINIC / "labels.toml").read_text()).items()
    }
    if CASES.is_dir():
        labels |= {CASES / name: row for name, row in json.loads((CASES / "labels.json").read_text()).items()}
    for path, row in labels.items():
        slow = path.with_name(f"{path.name}.slow.py")
        if slow.exists() and {c.partition("/")[0] for c in row["causes"]} & set(families):
            line = row.get("line", [])
            fixed = path.with_name(f"{path.name}.fixed.py")
            known = tuple(line) if isinstance(line, list) else (line,)
            yield Script(path.name, slow.read_text(), fixed.read_text(), tuple(row["causes"]), known)


def strangers() -> Iterator[Script]:
    """The slow ones, without lines: a finding may rightly stand at another than the label."""
    for folder in STRANGERS:
        for name, row in tomllib.loads((folder / "labels.toml").read_text()).items():
            if row["causes"]:
                slow, cured = (folder / f"{name}.slow.py").read_text(), folder / f"{name}.fixed.py"
                fixed = cured.read_text() if cured.exists() else ""  # the nineteenth set has none
                told = name if folder.name == "strangers" else f"{folder.name}/{name}"
                yield Script(told, slow, fixed, tuple(row["causes"]), ())


def unsuspicious() -> list[Path]:
    """Every cured and every healthy script."""
    folders = (CLINIC / "scripts", *STRANGERS)
    found = [p for folder in folders for p in folder.glob("*.py") if not p.name.endswith(".slow.py")]
    return sorted([*found, *CASES.glob("*.fixed.py")])
