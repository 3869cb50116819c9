"""A server's life: spec, launch, adopt, wait until ready, judge, profile, stop."""

from campaign.server.capture import CaptureProgress, capture_profile
from campaign.server.care import ensure_ready
from campaign.server.liveness import LivenessWatch, check_alive, check_process
from campaign.server.loads import PastLoad, past_load
from campaign.server.log import LoadProgress, LogReader, RootCause, tail_text
from campaign.server.presence import Presence, adopt, find, is_alive, satisfies
from campaign.server.record import ServerRecord
from campaign.server.spec import ServerSpec
from campaign.server.start import launch
from campaign.server.stopping import stop
from campaign.server.tiny import make_tiny_model
from campaign.server.vllm import attached_spec, command_spec, vllm_spec
from campaign.server.wait import wait_ready

__all__ = [
    "CaptureProgress",
    "LivenessWatch",
    "LoadProgress",
    "LogReader",
    "PastLoad",
    "Presence",
    "RootCause",
    "ServerRecord",
    "ServerSpec",
    "adopt",
    "attached_spec",
    "capture_profile",
    "check_alive",
    "check_process",
    "command_spec",
    "ensure_ready",
    "find",
    "is_alive",
    "launch",
    "make_tiny_model",
    "past_load",
    "satisfies",
    "stop",
    "tail_text",
    "vllm_spec",
    "wait_ready",
]
