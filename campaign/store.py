"""Every path in a campaign folder, and what is loaded from and saved to it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import msgspec

from campaign import files, schema
from campaign.errors import StateError, StorageError
from campaign.events import Event, EventLog
from campaign.measurement import now_utc, points_path, read_points
from campaign.state import SCHEMA_VERSION, CampaignState, PhaseState

#: What a campaign folder is known by.
FILE_NAME = "campaign.toml"


class Store:
    """A campaign folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.state_folder = self.folder / "state"
        self.state_path = self.state_folder / "campaign.json"
        self.previous_path = self.state_folder / "campaign.previous.json"
        self.altered_path = self.state_folder / "campaign.altered.json"
        """A campaign.json that somebody else than this package wrote."""
        self.events = EventLog(self.state_folder / "events.jsonl")
        self.revisions_path = self.state_folder / "revisions.jsonl"
        """Every state of the numbers that was written up."""
        self.narration_path = self.state_folder / "narration.json"
        """What the narrator was asked and answered last."""
        self.config_path = self.folder / FILE_NAME
        self.templates = self.folder / "templates"
        self.recovered: list[str] = []
        """What had to be recovered at loading, said aloud by the caller."""
        self.is_file_behind = False
        """Whether what was loaded is not what campaign.json holds."""
        self._altered = b""

    # State

    def load_state(self) -> CampaignState | None:
        """The state as it was last saved, recovered from the event log or the previous copy where the file is spoiled.

        None where there is none yet. Raises `StateError` for a newer schema, or where nothing can be recovered.
        """
        self.recovered.clear()
        self._altered, self.is_file_behind = b"", False
        try:
            data = self.state_path.read_bytes()
        except FileNotFoundError:
            if self._has_history():
                return self._recover("is gone")
            self._say_begun_anew()
            return None
        except OSError as error:
            raise StorageError(f"{self.state_path}: cannot be read: {error.strerror}.") from error
        try:
            state = self._decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._altered = data
            return self._recover(f"cannot be read ({error})")
        return self._compare(data, state)

    def _compare(self, data: bytes, state: CampaignState) -> CampaignState:
        """The newest of file and event log; a file that was never saved like this is not believed."""
        logged = self.events.states()
        newest = next(logged, None)
        if newest is None:
            return state
        file_hash = schema.content_hash(data)
        if newest.state_hash == file_hash:
            return state
        saved = self._decode(bytes(newest.state))
        self.is_file_behind = saved != state
        if saved == state or any(event.state_hash == file_hash for event in logged):
            return saved  # a runner died between the log and the file
        self._altered = data
        self.recovered.append(
            f"{self.state_path} was altered since it was saved: what was saved at {newest.at} is used, the altered "
            f"file is kept as {self.altered_path.name}. Edit the todo list with: python -m campaign add, skip, reset."
        )
        return saved

    def _decode(self, data: bytes) -> CampaignState:
        version = msgspec.json.decode(data, type=_Versioned).schema_version
        if version > SCHEMA_VERSION:
            raise StateError(
                f"{self.state_path}: written by a newer campaign (schema {version}, this one reads {SCHEMA_VERSION}). "
                "Upgrade this package; nothing was changed."
            )
        return schema.decode(data, CampaignState)

    def _has_history(self) -> bool:
        """Whether a state was ever saved; a log whose first line was torn tells of none."""
        return self.previous_path.exists() or self.events.is_begun()

    def _say_begun_anew(self) -> None:
        if any(self.results_folder.glob("*/*/*.json*")):
            self.recovered.append(
                f"{self.state_path} and {self.events.path.name} are gone: a new todo list is begun, and the points "
                f"that are in {self.results_folder} are taken over."
            )

    def _recover(self, why: str) -> CampaignState:
        self.is_file_behind = True
        for event in self.events.states():
            try:
                state = self._decode(bytes(event.state))
            except msgspec.MsgspecError:
                continue
            self.recovered.append(f"{self.state_path} {why}: recovered from {self.events.path.name} ({event.at}).")
            return state
        try:
            state = self._decode(self.previous_path.read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateError(
                f"{self.state_path} {why}, and neither {self.previous_path.name} nor {self.events.path.name} can "
                f"replace it. Results are still in {self.results_folder}; move campaign.json aside to begin anew with "
                "their points."
            ) from error
        self.recovered.append(f"{self.state_path} {why}: recovered from {self.previous_path.name}.")
        return state

    def new_state(self) -> CampaignState:
        """The state of a campaign that has not begun."""
        return CampaignState(campaign_id=secrets.token_hex(6), created_at=now_utc())

    def save_state(self, state: CampaignState, what: str, *, phase: str = "", detail: str = "") -> None:
        """Save the state whole and log what happened; the log comes first, so that it can replace a lost file."""
        data = schema.encode_pretty(state)
        event = Event(
            at=now_utc(), what=what, phase=phase, detail=detail, state=msgspec.Raw(schema.encode(state)),
            state_hash=schema.content_hash(data),
        )  # fmt: skip
        self.events.append(event)
        if self._altered:
            files.write_atomic(self.altered_path, self._altered)
            self._altered = b""
        else:
            self._keep_previous()
        files.write_atomic(self.state_path, data)

    def _keep_previous(self) -> None:
        try:
            previous = self.state_path.read_bytes()
            self._decode(previous)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, StateError):
            return
        files.write_atomic(self.previous_path, previous)

    def remove_temporaries(self, document: Path) -> int:
        """Remove what killed writers left behind, beside the document too; returns how many."""
        folders = [self.state_folder, self.sections_folder, self.state_folder / "adopted"]
        folders += [self.conflict_path("any").parent, document.resolve().parent, document.parent / "figures"]
        folders += [path for path in self.results_folder.glob("*/*") if path.is_dir()]
        return sum(files.remove_temporaries(folder) for folder in set(folders) if folder.is_dir())

    # Results

    @property
    def results_folder(self) -> Path:
        return self.state_folder / "results"

    def attempt_folder(self, phase_id: str, attempt: int) -> Path:
        """Folder of one attempt."""
        return self.results_folder / phase_id / str(attempt)

    def newest_attempt(self, phase_id: str) -> int:
        """The highest attempt of a phase that has a folder; 0 = none."""
        names = (path.name for path in (self.results_folder / phase_id).glob("*"))
        return max((int(name) for name in names if name.isdigit()), default=0)

    def relative(self, path: Path) -> str:
        """A path as it is written into results and the document: relative to the campaign folder where inside it."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)

    def prepare_attempt(self, entry: PhaseState, measurement_config: msgspec.Struct) -> Path:
        """Make the folder of the newest attempt, with its config and the points of earlier ones; returns it.

        Points carry the hash of their parameters, so the script itself leaves out those of other parameters.
        """
        folder = self.attempt_folder(entry.id, entry.last_attempt)
        out = points_path(folder / "result.json")
        if not out.exists():
            lines: dict[str, bytes] = {}
            for attempt in range(entry.carry_from, entry.last_attempt):
                earlier = points_path(self.attempt_folder(entry.id, attempt) / "result.json")
                for point in read_points(earlier):
                    lines[f"{point.config_hash} {point.key}"] = schema.encode(point)
            files.write_atomic(out, b"".join(line + b"\n" for line in lines.values()))
        files.write_atomic(folder / "config.json", schema.encode_pretty(measurement_config))
        return folder

    def read_result(self, entry: PhaseState) -> tuple[schema.Result, str] | None:
        """The accepted result of a phase and its hash; None where there is none.

        Raises `StateError` where the file was altered or is gone.
        """
        if not entry.result_attempt:
            return None
        path = self.attempt_folder(entry.id, entry.result_attempt) / "result.json"
        loaded = self.load_result(path)
        if loaded is None:
            raise StateError(
                f"{path}: the result of phase {entry.id} is gone. Measure again: python -m campaign reset {entry.id}."
            )
        if entry.result_hash and loaded[1] != entry.result_hash:
            raise StateError(
                f"{path}: altered since it was accepted (hash {loaded[1]}, was {entry.result_hash}). Restore the file, "
                f"or measure again: python -m campaign reset {entry.id}."
            )
        return loaded

    def load_result(self, path: Path) -> tuple[schema.Result, str] | None:
        """A whole, valid result file and its hash, or None."""
        try:
            data = path.read_bytes()
            return schema.decode(data, schema.Result), schema.content_hash(data)
        except (OSError, msgspec.MsgspecError):
            return None

    # Document

    @property
    def sections_folder(self) -> Path:
        return self.state_folder / "sections"

    def last_written(self) -> dict[str, str]:
        """Section id → its text as last written."""
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted(self.sections_folder.glob("*.md"))}

    def save_written(self, section_id: str, text: str) -> None:
        """Remember the text of a section as written (where it differs)."""
        self.write_if_changed(self.sections_folder / f"{section_id}.md", text.encode())

    def conflict_path(self, section_id: str) -> Path:
        """Where the new text of a section in conflict is kept."""
        return self.state_folder / "conflicts" / f"{section_id}.md"

    def write_if_changed(self, path: Path, data: bytes) -> bool:
        """Write a file unless it holds these bytes already; says whether it was written."""
        try:
            if path.read_bytes() == data:
                return False
        except OSError:
            pass
        files.write_atomic(path, data)
        return True

    def read_json(self, path: Path, kind: type[Any]) -> Any:
        """A JSON file as `kind`, or None where it is missing or spoiled."""
        try:
            return schema.decode(path.read_bytes(), kind)
        except (OSError, msgspec.MsgspecError):
            return None


class _Versioned(msgspec.Struct):
    schema_version: int
