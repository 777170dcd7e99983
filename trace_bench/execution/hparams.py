"""Summaries of TensorBoard's plug-in ``hparams``: a table of jobs by their parameters and results.

As of tensorboard/plugins/hparams/README and plugin_data.proto: an experiment and a session's start before its scalars,
its end behind them, each as the plug-in's data in the metadata of a summary without a value. tensorboardX makes them
too, but its bytes depend on the order of a hash table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trace_bench.artifacts import jsonio

PLUGIN = "hparams"
_VERSION = 0


def start_summaries(parameters: Mapping[str, Any], metrics: Iterable[str]) -> list[Any]:
    """The summaries before the scalars of a session. A value that is no number, truth value or text becomes JSON text.

    Args:
        metrics: tags of the scalars that sessions are compared by.
    """
    from tensorboardX.proto.api_pb2 import DataType, Experiment, HParamInfo, MetricInfo, MetricName
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData, SessionStartInfo

    experiment, session = Experiment(), SessionStartInfo()
    for name, value in parameters.items():
        if value is None:
            continue
        if isinstance(value, bool):
            kind, session.hparams[name].bool_value = "BOOL", value
        elif isinstance(value, int | float):
            kind, session.hparams[name].number_value = "FLOAT64", float(value)
        else:
            text = value if isinstance(value, str) else jsonio.dumps(value)
            kind, session.hparams[name].string_value = "STRING", text
        experiment.hparam_infos.append(HParamInfo(name=name, type=DataType.Value(f"DATA_TYPE_{kind}")))
    for tag in metrics:
        experiment.metric_infos.append(MetricInfo(name=MetricName(tag=tag)))
    return [
        _summary("experiment", HParamsPluginData(version=_VERSION, experiment=experiment)),
        _summary("session_start_info", HParamsPluginData(version=_VERSION, session_start_info=session)),
    ]


def end_summary(*, failed: bool) -> Any:
    """The summary behind the scalars of a session."""
    from tensorboardX.proto.api_pb2 import Status
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData, SessionEndInfo

    end = SessionEndInfo(status=Status.Value("STATUS_FAILURE" if failed else "STATUS_SUCCESS"))
    return _summary("session_end_info", HParamsPluginData(version=_VERSION, session_end_info=end))


def _summary(name: str, data: Any) -> Any:
    from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata

    plugin = SummaryMetadata.PluginData(plugin_name=PLUGIN, content=data.SerializeToString(deterministic=True))
    return Summary(value=[Summary.Value(tag=f"_hparams_/{name}", metadata=SummaryMetadata(plugin_data=plugin))])
