# The last layer of every family: the worker, and beside it the files of trainer packages, which the training phase alone
# imports; one of theirs that does not compile hurts nobody else. Unchecked-hash byte code is the same on every build, and
# is never checked against its source at start-up.
ARG BASE
FROM ${BASE} AS worker
LABEL trace-bench.stage="worker"
COPY worker /opt/trace-bench/lib
COPY plugins /opt/trace-bench/plugins
RUN set -e; \
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/trace-bench/lib; \
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/trace-bench/plugins >/dev/null || true

FROM ${BASE}
COPY --from=worker /opt/trace-bench/lib /opt/trace-bench/lib
COPY --from=worker /opt/trace-bench/plugins /opt/trace-bench/plugins
ARG PRELOAD=""
ENV TRACE_BENCH_PRELOAD=${PRELOAD}
