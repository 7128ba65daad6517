"""Every promise about the log, as a query that finds the rows which break it."""

from timothy.schema import EVIDENCE_KINDS

_EVIDENCE = ", ".join(f"'{kind}'" for kind in EVIDENCE_KINDS)


def _field(table: str, name: str) -> str:
    """A field of the payload; null in one that is no JSON, which a check of its own names."""
    return f"CASE WHEN json_valid({table}.payload) THEN json_extract({table}.payload, '$.{name}') END"


# Each query gives (row, message) pairs; no row at all means that the promise is kept.
CHECKS: dict[str, str] = {
    "seq_gapless": """
        SELECT 'session ' || session_id,
               'seq runs from ' || MIN(seq) || ' to ' || MAX(seq) || ' in ' || COUNT(*) || ' rows, '
               || COUNT(DISTINCT seq) || ' of them different'
        FROM session_events GROUP BY session_id
        HAVING MIN(seq) != 1 OR MAX(seq) != COUNT(*) OR COUNT(DISTINCT seq) != COUNT(*)""",
    "session_of_event": """
        SELECT DISTINCT 'session ' || session_id, 'there are rows of a session that does not exist'
        FROM session_events WHERE session_id NOT IN (SELECT id FROM sessions)""",
    "session_of_turn": """
        SELECT 'turn ' || t.id, 'its session ' || t.session_id || ' does not exist'
        FROM turns t LEFT JOIN sessions s ON s.id = t.session_id WHERE s.id IS NULL""",
    "evidence_once": f"""
        SELECT 'turn ' || t.id, 'it ended but has ' || COUNT(e.id) || ' evidence rows, not one'
        FROM turns t LEFT JOIN session_events e ON e.turn_id = t.id AND e.kind IN ({_EVIDENCE})
        WHERE t.state = 'ended' GROUP BY t.id HAVING COUNT(e.id) != 1""",
    "evidence_of_running_turn": f"""
        SELECT 'turn ' || t.id, 'it is marked as running but has its evidence'
        FROM turns t JOIN session_events e ON e.turn_id = t.id AND e.kind IN ({_EVIDENCE})
        WHERE t.state != 'ended'""",
    "evidence_last": f"""
        SELECT 'session ' || e.session_id || ' seq ' || e.seq, 'turn ' || e.turn_id || ' has rows after this'
        FROM session_events e WHERE e.kind IN ({_EVIDENCE}) AND EXISTS (
            SELECT 1 FROM session_events l WHERE l.turn_id = e.turn_id AND l.seq > e.seq)""",
    "turn_of_event": """
        SELECT 'session ' || e.session_id || ' seq ' || e.seq, 'turn ' || e.turn_id || ' does not exist'
        FROM session_events e LEFT JOIN turns t ON t.id = e.turn_id
        WHERE e.turn_id IS NOT NULL AND t.id IS NULL""",
    "turn_in_its_session": """
        SELECT 'session ' || e.session_id || ' seq ' || e.seq, 'turn ' || t.id || ' is another session''s'
        FROM session_events e JOIN turns t ON t.id = e.turn_id WHERE t.session_id != e.session_id""",
    "no_interleaving": """
        WITH spans AS (
            SELECT session_id, turn_id, MIN(seq) AS first, MAX(seq) AS last FROM session_events
            WHERE turn_id IS NOT NULL GROUP BY session_id, turn_id)
        SELECT 'session ' || s.session_id || ' seq ' || e.seq,
               'a row of turn ' || e.turn_id || ' stands between rows of turn ' || s.turn_id
        FROM spans s JOIN session_events e ON e.session_id = s.session_id AND e.seq > s.first
            AND e.seq < s.last AND e.turn_id IS NOT NULL AND e.turn_id != s.turn_id""",
    "outcome_known": """
        SELECT 'turn ' || id, 'it ended without an outcome' FROM turns
        WHERE state = 'ended' AND (outcome IS NULL OR ended_at IS NULL)""",
    "outcome_fits_evidence": """
        SELECT 'turn ' || t.id, 'its outcome is ' || t.outcome || ' but its evidence is ' || e.kind
        FROM turns t JOIN session_events e ON e.turn_id = t.id
        WHERE (e.kind = 'assistant_turn') != (t.outcome IN ('completed', 'incomplete'))
            AND e.kind IN ('assistant_turn', 'pending_state', 'turn_failed') AND t.state = 'ended'""",
    "message_of_turn": """
        SELECT 'turn ' || t.id, 'the message that it answers (seq ' || t.user_seq || ') is not there'
        FROM turns t LEFT JOIN session_events e ON e.session_id = t.session_id AND e.seq = t.user_seq
            AND e.kind = 'user_message' WHERE e.id IS NULL""",
    "checkpoints_end": """
        SELECT 'turn ' || p.turn_id, 'it ended but its checkpoints are still there'
        FROM pending_states p LEFT JOIN turns t ON t.id = p.turn_id
        WHERE t.id IS NULL OR t.state = 'ended' GROUP BY p.turn_id""",
    "tools_end": """
        SELECT 'turn ' || s.turn_id, 'it ended but its call ' || s.call_id || ' is still marked as started'
        FROM tool_starts s LEFT JOIN turns t ON t.id = s.turn_id WHERE t.id IS NULL OR t.state = 'ended'""",
    "tool_execution_once": f"""
        SELECT 'turn ' || turn_id, 'its call ' || {_field("e", "call_id")} || ' is recorded '
            || COUNT(*) || ' times'
        FROM session_events e WHERE kind = 'tool_execution' AND turn_id IS NOT NULL
        GROUP BY turn_id, {_field("e", "call_id")} HAVING COUNT(*) > 1""",
    "tool_execution_whole": f"""
        SELECT 'session ' || e.session_id || ' seq ' || e.seq,
               'this call of a tool lacks its id, its name or how it ended'
        FROM session_events e WHERE e.kind = 'tool_execution' AND json_valid(e.payload) AND (
            {_field("e", "call_id")} IS NULL OR {_field("e", "name")} IS NULL
            OR COALESCE({_field("e", "status")}, '') NOT IN ('ok', 'error', 'denied', 'cancelled'))""",
    "tool_execution_of_call": f"""
        SELECT 'session ' || q.session_id || ' seq ' || q.seq,
               'the turn came to its answer, but the call that this asked for has no execution'
        FROM session_events q JOIN turns t ON t.id = q.turn_id
        WHERE q.kind = 'permission_request' AND t.outcome IN ('completed', 'incomplete') AND NOT EXISTS (
            SELECT 1 FROM session_events e WHERE e.turn_id = q.turn_id AND e.kind = 'tool_execution'
            AND {_field("e", "call_id")} = {_field("q", "call_id")})""",
    "tool_execution_allowed": f"""
        SELECT 'session ' || e.session_id || ' seq ' || e.seq, {_field("q", "tool")} || ' was asked for and '
            || COALESCE({_field("r", "decision")}, 'not answered') || ', but '
            || {_field("e", "name")} || ' ran'
        FROM session_events q JOIN session_events e ON e.turn_id = q.turn_id AND e.kind = 'tool_execution'
            AND {_field("e", "call_id")} = {_field("q", "call_id")}
        LEFT JOIN session_events r ON r.turn_id = q.turn_id AND r.kind = 'permission_resolved'
            AND {_field("r", "id")} = {_field("q", "id")}
        WHERE q.kind = 'permission_request' AND {_field("e", "status")} IN ('ok', 'error') AND (
            COALESCE({_field("r", "decision")}, '') NOT IN ('once', 'session')
            OR {_field("e", "name")} != {_field("q", "tool")})""",
    "permission_resolved": f"""
        SELECT 'session ' || q.session_id || ' seq ' || q.seq, 'this permission request was never resolved'
        FROM session_events q JOIN turns t ON t.id = q.turn_id
        WHERE q.kind = 'permission_request' AND t.state = 'ended' AND NOT EXISTS (
            SELECT 1 FROM session_events r WHERE r.turn_id = q.turn_id AND r.kind = 'permission_resolved'
            AND {_field("r", "id")} = {_field("q", "id")})""",
    "permission_asked_for": f"""
        SELECT 'session ' || r.session_id || ' seq ' || r.seq,
               'this answers a request that is not in its turn'
        FROM session_events r WHERE r.kind = 'permission_resolved' AND r.turn_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM session_events q WHERE q.turn_id = r.turn_id AND q.kind = 'permission_request'
            AND {_field("q", "id")} = {_field("r", "id")})""",
    "ledger_of_turn": """
        SELECT 'attempt ' || a.id, 'turn ' || a.turn_id || ' does not exist'
        FROM attempts a LEFT JOIN turns t ON t.id = a.turn_id WHERE t.id IS NULL""",
    "ledger_in_its_session": """
        SELECT 'attempt ' || a.id, 'turn ' || t.id || ' is not of its session ' || a.session_id
        FROM attempts a JOIN turns t ON t.id = a.turn_id WHERE t.session_id != a.session_id""",
    "ledger_status": """
        SELECT 'attempt ' || id, 'it ended as ' || status || ' with code ' || COALESCE(code, 'null')
        FROM attempts WHERE status NOT IN ('ok', 'incomplete', 'error', 'stopped')
            OR (status IN ('error', 'stopped') AND code IS NULL)""",
    "ledger_of_answer": """
        SELECT 'turn ' || t.id, 'it was answered but the ledger has no attempt that gave an answer'
        FROM turns t JOIN sessions s ON s.id = t.session_id
        WHERE t.outcome = 'completed' AND t.request_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM attempts a WHERE a.turn_id = t.id AND a.status IN ('ok', 'incomplete'))""",
    "ledger_names_who_answered": """
        SELECT 'turn ' || t.id, 'it says that ' || t.provider || ' answered with '
            || COALESCE(t.model, 'null') || ', the ledger names no such answer'
        FROM turns t WHERE t.outcome = 'completed' AND t.request_id IS NOT NULL AND t.provider IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.turn_id = t.id AND a.provider = t.provider
                AND a.model IS t.model AND a.status IN ('ok', 'incomplete'))""",
    "payload_is_json": """
        SELECT 'session ' || session_id || ' seq ' || seq, 'its payload is no JSON'
        FROM session_events WHERE NOT json_valid(payload)""",
}
