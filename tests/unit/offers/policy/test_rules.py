"""Which test fails if a rule of the policies does not hold.

`RULES` has the rules of sessions, of trees, and of both, one for each sentence of their design. An entry names vectors
(`D05`, `E40`: tests/vectors), tests (``module::test``), invariants of the simulation (`I83`) and benchmarks. Rules that
differ from those of kube-batch, Volcano or YuniKorn stand in the tables of docs/policies.md. This module checks that
everything that is named exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.vectors.reading import read

ROOT = Path(__file__).resolve().parents[4]
REFERENCE = "session/test_reference::test_the_engine_decides_as_the_reference"
EVICTS = "session/test_reference::test_the_engine_evicts_as_the_reference"
TREES = "hierarchy/test_reference::test_the_tree_decides_as_the_reference"
LAWS = "hierarchy/test_preemption::test_the_seven_laws"

SESSIONS: Mapping[str, str] = {
    # Orders and shares.
    "priority: of the tasks of a job the higher priority is first": REFERENCE,
    "priority: of jobs the higher priority is first": "D05",
    "priority: the victim's job has a strictly lower priority": (
        "engines/test_session::test_equal_and_higher_priorities_are_not_evicted"
    ),
    "priority: within a job the victim has a strictly lower priority": (
        "session/test_victims::"
        "test_within_a_job_a_task_takes_the_room_of_less_important_tasks_only_if_the_policy_says_so"
    ),
    "priority: reclaim has no regard to it": "E60",
    "gang: a job without enough valid tasks leaves the session": "D01",
    "gang: jobs below their minimum are first": "E75",
    "gang: each victim leaves one task less, and the minimum stays": "D10 D13 D15 E04 E61 E74",
    "gang: the last task of a job without a minimum may leave": "D09 E34",
    "drf: the dominant share is the greatest of all dimensions": "D04",
    "drf: the lower share is first, as things stand after each placement": "D03 D04",
    "drf: a victim leaves if its job then has at least the share of the other one": "E62 E63 E76",
    "proportion: the request is all that is allocated and all that waits": "D06",
    "proportion: deserved shares are the weighted water level within the bounds": (
        "D06 D08 session/test_properties::test_water_filling_keeps_bounds_uses_what_is_there_and_is_fair"
    ),
    "proportion: guarantees and capabilities bound the deserved share": (
        f"{REFERENCE} session/test_properties::test_deserved_shares_sum_to_at_most_the_cluster"
    ),
    "proportion: work that could never run takes nothing from the shares of others": "E69 E70",
    "proportion: the queue with the lower share is first": f"D06 {REFERENCE}",
    "proportion: the priority of queues is before the share, if the policy says so": (
        "placement/test_queues::test_queues_with_a_greater_priority_are_first_if_the_policy_says_so"
    ),
    "proportion: a queue is passed over with its share of every dimension": "D06",
    "proportion: a queue takes back no more than its share": "D11 E65",
    "proportion: capability and guarantees of others are hard limits": (
        "E30 E31 session/test_victims::test_no_queue_gets_more_than_its_limit_by_evictions "
        "placement/test_queues::test_a_capability_bounds_a_queue_and_a_change_takes_effect_with_the_next_session "
        "placement/test_queues::test_what_is_guaranteed_to_a_queue_is_not_for_others "
        "session/test_properties::test_an_agent_with_less_than_runs_there_takes_no_room_from_others"
    ),
    "proportion: strict makes the share a limit": f"D06 {REFERENCE}",
    "proportion: a victim's queue is above its share in a dimension that is requested": "D09 E64 E65",
    "proportion: the queue need not stay above its share in every dimension": "E64",
    "conformance: critical tasks are no victims": "D14 engines/test_session::test_critical_work_is_not_evicted",
    # Filters before tallies.
    "all filters and the budget are applied before shares are counted": (
        "E04 E05 E77 placement/test_open_operations::test_an_open_operation_takes_nothing_from_a_queue_that_is_entitled"
    ),
    "a candidate that another plug-in refuses spends nothing": (
        "E04 E05 session/test_evictions::test_a_gang_at_its_minimum_keeps_no_queue_from_its_share"
    ),
    "a candidate that is too small does not use up a count": "E60 E61 E62",
    "an entitled queue makes progress if one legal victim would help": (
        "I83 session/test_evictions::test_an_entitled_queue_gets_its_share_if_enough_tasks_may_leave"
    ),
    # Actions.
    "the best is chosen from the order at that moment": f"D03 E88 {REFERENCE}",
    "allocate: jobs with pending tasks that are not best effort": "D18 E81",
    "allocate: the best queue, then its best job": "D05 D06 E89",
    "allocate: room that a pipelined task counts on is not taken": (
        "D19 session/test_properties::test_without_the_rule_of_future_room_evictions_never_stop"
    ),
    "allocate: one misfit does not sink a gang": "E66",
    "allocate: a job that cannot start leaves its room to others": "D02",
    "allocate: a job that waits for room to leave keeps the room": "D19",
    "allocate: a gang gets its minimum in one go, and then one task a turn": "D03",
    "backfill: best-effort tasks, by predicates": "D18",
    "preempt: a statement for each job below its minimum, in the order of jobs": "D12 D13 E82",
    "preempt: victims are tasks of other jobs of the same queue": "E80",
    "preempt: idle room counts, and the least important task leaves first": "D13 E36",
    "preempt: nothing is evicted for a part of a minimum": "D12",
    "preempt: a statement without evictions is left to allocate": EVICTS,
    "agents are compared by priority, number, amounts and score": (
        f"E34 E35 E78 {EVICTS} session/test_victims::test_agents_are_compared_by_what_the_victims_cost"
    ),
    "reclaim compares agents in the same way": f"E37 {EVICTS}",
    "what-if compares agents in the same way": ("whatif/test_evictions::test_the_taskgroups_that_cost_least_are_named"),
    "preempt: hard limits hold with the victims counted as gone": (
        "E30 E31 I80 session/test_victims::"
        "test_where_room_and_limit_are_short_victims_of_other_agents_leave_for_the_limit"
    ),
    "preempt: where only a limit is in the way, victims run on any agent": "E32 E33",
    "victims that are not needed are given back, the most important first": (
        "E36 E78 I81 session/test_victims::test_every_victim_is_needed "
        f"session/test_victims::test_a_victim_is_given_back_that_a_later_task_of_the_gang_makes_needless {EVICTS}"
    ),
    "reclaim: victims are tasks of other queues that are reclaimable": (
        "E68 E79 placement/test_queues::test_a_queue_that_is_not_reclaimable_keeps_what_it_has"
    ),
    "reclaim: all tiers agree on a victim": "D10 E05 E85",
    "reclaim: the minimum in one statement, then each task in its own": "D11 E67",
    "limits and shares hold the rooms that were promised beside further victims": (
        "session/test_evictions::test_a_queue_takes_back_no_more_than_its_share_beside_what_it_was_promised "
        "session/test_evictions::test_the_limit_of_a_queue_holds_what_it_was_promised_beside_further_victims"
    ),
    "reclaim: evictions come to an end": (
        "I82 session/test_properties::test_evictions_stop_after_the_last_arrival "
        "session/test_properties::test_the_specified_cycles_do_not_occur"
    ),
    "reclaim: without nominations they would not": (
        "session/test_properties::test_without_nominations_evictions_never_stop"
    ),
    "enqueue: minima are let in up to the overcommit factor and the capability": (
        "session/test_enqueue::test_minima_are_let_in_up_to_the_overcommit_factor "
        "session/test_enqueue::test_the_capability_of_a_queue_bounds_the_jobs_that_are_let_in"
    ),
    "enqueue: a job that is not let in takes nothing back": (
        "session/test_enqueue::test_a_job_that_is_not_let_in_takes_nothing_back"
    ),
    "statement: an undo restores everything": "session/test_properties::test_undo_restores_everything_exactly",
    "statement: operations are carried out in their order": (
        "policy/test_vectors::test_operations_are_in_the_order_of_the_decisions"
    ),
    "statement: an eviction that is refused is undone alone": (
        "engines/test_session::test_an_eviction_that_is_refused_is_undone_alone"
    ),
    "a nominated task has its room, for its time": (
        "session/test_evictions::test_promised_room_is_not_for_more_important_work_until_the_promise_ends "
        "engines/test_session::test_a_gang_evicts_less_urgent_taskgroups_and_gets_their_room "
        "engines/test_session::test_promised_room_is_given_back_after_a_minute"
    ),
    "its time does not pass while nothing can be offered": (
        "engines/test_session::test_a_promise_lasts_while_its_room_cannot_be_offered "
        "engines/test_session::test_a_promise_ends_if_its_room_is_never_offered "
        "placement/test_pauses::test_nothing_more_is_ended_while_the_cluster_manager_offers_nothing"
    ),
}
TREE: Mapping[str, str] = {
    # The laws.
    "an opt-out is a strong wish": (
        "hierarchy/test_victims::test_work_that_asks_to_be_taken_after_all_others_is_spared_on_every_node"
    ),
    "no queue is driven below its guarantee": f"E08 E84 {LAWS}",
    "no victims within one application": LAWS,
    "only a queue below its guarantee preempts": f"D23 {LAWS}",
    "only a queue above its guarantee loses": LAWS,
    "victims have a lower or equal priority": f"E83 {LAWS}",
    "no victims outside of the fence": f"E07 {LAWS}",
    # Conditions.
    "preemption of the partition is on": "hierarchy/test_preemption::test_preemption_can_be_switched_off",
    "the ask may preempt, needs no particular node, and is as old as the delay of its leaf": (
        "hierarchy/test_preemption::test_pre_conditions_of_an_ask"
    ),
    "15 seconds between two tries": "hierarchy/test_preemption::test_an_ask_whose_promise_is_lost_preempts_again",
    "a try in vain that depends on the tree alone is repeated when something has changed": (
        "hierarchy/test_preemption"
        "::test_a_try_in_vain_that_depends_on_the_tree_alone_is_repeated_when_something_has_changed"
    ),
    "ten tries of a leaf in a cycle": (
        "hierarchy/test_preemption::test_the_asks_of_a_leaf_have_a_bounded_number_of_tries"
    ),
    "a try where the ask fits no node, or where a maximum stops it": (
        "hierarchy/test_preemption::test_victims_on_several_nodes_make_room_below_a_maximum"
    ),
    "the search is bounded by a fence, a full maximum, or root": (
        "hierarchy/test_preemption::test_a_fence_keeps_preemption_inside "
        "hierarchy/test_preemption::test_a_maximum_in_the_way_bounds_the_search"
    ),
    "priorities are compared with offsets and fences, where the branches meet": (
        "hierarchy/test_preemption::test_priorities_are_compared_where_the_branches_meet"
    ),
    "leaves whose policy is disabled lose nothing": "E06",
    "asks for one node, and allocations that leave already, are no victims": (
        "hierarchy/test_preemption::test_the_order_of_victims "
        "E86 hierarchy/test_victims::test_results_name_siblings_victims_that_leave_and_the_lack_of_candidates"
    ),
    "without a guarantee on the path there is no preemption": (
        "hierarchy/test_preemption::test_a_queue_without_any_guarantee_does_not_preempt"
    ),
    "the nearest guarantee counts": "hierarchy/test_preemption::test_the_guarantee_of_a_parent_counts",
    "the guarantee is a condition, and no number of victims": (
        "E01 hierarchy/test_preemption::test_an_ask_of_a_queue_far_above_its_guarantee_ends_nothing"
    ),
    "siblings without guarantees take nothing from each other": "E02",
    "a sibling with a guarantee takes up to it": (
        "E03 hierarchy/test_preemption::test_a_guarantee_below_admits_victims_among_siblings"
    ),
    # Victims.
    "on a node: opt-outs and originators last, the newest first": (
        "E87 hierarchy/test_preemption::test_the_order_of_victims"
    ),
    "a victim reduces the shortage, and guarantees hold; the walk stops when the ask fits": TREES,
    "if the walk fails, one that suffices alone is tried": (
        "E10 E48 hierarchy/test_preemption::"
        "test_a_large_victim_is_found_behind_a_small_one_that_uses_up_what_its_queue_can_lose"
    ),
    "victims that are not needed are given back": (
        f"I81 hierarchy/test_preemption::test_victims_that_are_not_needed_run_on {TREES}"
    ),
    "no victim takes a gang below its minimum": "E42 E46 engines/test_hierarchical::test_a_gang_keeps_its_minimum",
    "a whole gang leaves in one step, if its queue says so, and starts again together": (
        "E47 engines/test_hierarchical::test_a_gang_that_may_end_as_a_whole_ends_in_one_step_and_starts_again_together"
    ),
    "an unfinished operation protects nothing": (
        "E50 placement/test_open_operations::test_a_launch_that_asks_for_more_than_its_queue_holds_protects_nothing"
    ),
    "nodes are compared by priority, number, amounts and name": (
        "E40 E41 hierarchy/test_victims::test_of_equal_victims_those_on_the_first_node_are_chosen"
    ),
    "predicates are asked with the victims gone": (
        "hierarchy/test_preemption::test_a_further_condition_excludes_nodes"
    ),
    "the node is kept for the ask until it is placed": (
        "hierarchy/test_preemption::test_a_preemption_promises_the_node_until_the_ask_is_placed"
    ),
    "a large victim does not cross the guarantee": "D23 E08",
    # Quotas.
    "a lowered maximum is enforced after the delay, from the newest on": (
        "hierarchy/test_preemption::test_a_lowered_maximum_is_enforced_after_the_delay_from_the_newest_on"
    ),
    "a lowered maximum takes nothing of the guarantee": (
        "hierarchy/test_preemption::test_no_queue_gives_back_its_guarantee"
    ),
    "a parent spreads its excess by the usage above guarantees": (
        "hierarchy/test_preemption::test_a_parent_spreads_its_excess_by_usage_above_guarantees"
    ),
    "victims larger than the rest of the excess stay": "E43 E44",
    # Costs and explanations.
    "a pass that takes too long continues in the next turn": (
        "hierarchy/test_victims::test_a_round_that_takes_too_long_goes_on_and_each_leaf_has_its_turn "
        "session/test_portions::test_each_portion_goes_on_where_the_one_before_has_stopped "
        "queues-guarantees-999-1000 policy-gangs-at-minimum-5000"
    ),
    "a try in vain is repeated only after a change that could help": (
        "hierarchy/test_victims::test_a_try_in_vain_is_repeated_only_after_a_change_that_could_help "
        "session/test_portions::test_a_try_in_vain_is_made_again_when_something_changes policy-hopeless-preempt-5000"
    ),
    "the last attempt is kept with counts by reason, and named": (
        "placement/test_obstacles::test_a_session_names_the_cause placement/test_obstacles::test_a_tree_names_the_cause"
    ),
    "a queue limit is named only for a maximum below root": (
        "placement/test_obstacles::test_a_full_cluster_is_no_limit_of_a_queue "
        "placement/test_obstacles::test_a_capability_is_named_and_a_taskgroup_that_is_larger_than_it"
    ),
}
BOTH: Mapping[str, str] = {
    # May this taskgroup be ended?
    "not ready: first of all, without budget": (
        "E52 test_disruptions::test_what_is_not_ready_costs_nothing_also_without_budget "
        "placement/test_open_operations::test_what_is_not_ready_gives_way_first_and_spends_no_budget "
        "session/test_victims::test_tasks_that_are_not_ready_leave_before_all_others"
    ),
    "ready: if the budget has one left": (
        "E58 test_disruptions::test_a_ready_taskgroup_costs_one_while_the_budget_has_one_left"
    ),
    "both sides of a rolling update spend one budget": (
        "test_disruptions::test_both_sides_of_an_update_have_one_budget "
        "test_core_shared_budgets::test_nothing_is_ended_for_work_that_needs_both_sides "
        "test_core_shared_budgets::test_one_side_gives_way_and_the_other_does_not "
        "test_core_shared_budgets::test_old_work_that_needs_both_sides_ends_one_after_the_other "
        "hierarchy/test_victims::test_applications_with_one_budget_spend_it_together "
        "hierarchy/test_changes::test_a_trial_spends_the_budgets "
        "test_core_shared_budgets::test_what_if_proposes_no_end_of_both_sides "
        "placement/test_rebalancing::test_both_sides_of_an_update_share_the_budget"
    ),
    "an operation that waits protects nothing": (
        "E50 E51 test_disruptions::test_a_launch_that_asks_for_more_than_fits_protects_nothing"
    ),
    "an operation in progress spends the budget, and protects the taskgroups that it ends": (
        "test_disruptions::test_what_an_operation_ends_is_not_ended_for_others "
        "test_disruptions::test_an_update_shares_its_bound"
    ),
    "a gang at its minimum: as a whole only": (
        "E42 E46 E47 engines/test_session::test_a_gang_is_not_evicted_below_its_minimum "
        "test_core_drains::test_a_gang_at_its_minimum_moves_as_a_whole"
    ),
    "critical: not, except by a drain": (
        "test_disruptions::test_critical_work_leaves_its_agent_for_a_drain_only "
        "hierarchy/test_obstacles::test_critical_work_is_spared_by_preemption_and_by_lowered_maxima"
    ),
    "drains, rebalancing and what-if give the same answer": (
        "test_core_drains::test_a_launch_that_asks_for_more_than_fits_does_not_keep_an_agent "
        "test_core_drains::test_a_paused_update_keeps_no_agent_within_the_bound_of_its_deployment "
        "placement/test_rebalancing::test_the_budget_of_an_application_is_shared_with_what_is_not_ready "
        "whatif/test_admitted::test_what_may_not_be_ended_is_not_proposed"
    ),
    "a move waits for readiness of work that was ready": (
        "E53 test_core_drains::test_the_replacement_must_be_healthy_before_the_next"
    ),
    "work that never becomes ready holds no place of a drain": (
        "I85 test_core_drains::test_a_broken_application_takes_no_place_of_a_drain_and_needs_no_budget "
        "test_core_drains::test_a_successor_that_is_never_ready_holds_no_place_for_ever"
    ),
    # Reserved nodes.
    "a node is reserved only if its room is known to become enough": (
        "E45 E54 hierarchy/test_limits::"
        "test_an_ask_reserves_the_node_that_lacks_the_least_of_those_whose_room_is_known_to_become_enough "
        "hierarchy/test_limits::test_amounts_that_never_go_are_not_known_to_become_free"
    ),
    "a node is reserved only while that is so": (
        "hierarchy/test_limits::test_a_reservation_ends_when_its_room_is_not_known_to_come_any_more "
        "placement/test_agent_holds::test_an_agent_is_reserved_while_runs_there_are_expected_to_end"
    ),
    "60 seconds of any 120, for all asks together": (
        "hierarchy/test_limits::test_a_node_is_reserved_half_of_the_time_at_most_whoever_reserves_it "
        "hierarchy/test_limits::test_no_window_has_more_than_its_share"
    ),
    "a tenth of the nodes, and one where there are three": (
        "hierarchy/test_limits::test_small_clusters_are_not_reserved_and_a_tenth_of_the_others_at_most"
    ),
    "asks of higher priority and of queues below their guarantee use the room": (
        "hierarchy/test_limits::test_an_ask_that_outranks_the_one_that_reserves_uses_the_room"
    ),
    "nothing is preempted beside reserved room for such asks": (
        "hierarchy/test_limits::test_nothing_is_preempted_beside_free_room_that_another_ask_has_reserved"
    ),
    "large work that waits closes no agents for small work": (
        "I84 placement/test_agent_holds::test_large_applications_that_wait_close_no_agents_for_small_ones"
    ),
    # Aging.
    "an ask is old after the time of the setting; 0: never": (
        "placement/test_agent_holds::test_an_old_large_ask_starts_beside_endless_small_work "
        "placement/test_agent_holds::test_without_aging_a_large_ask_waits_for_ever"
    ),
    "an ask beyond the limit of its queue is not old": (
        "placement/test_agent_holds::test_an_ask_beyond_the_limit_of_its_queue_is_not_old "
        "placement/test_agent_holds::test_an_ask_of_a_queue_at_its_deserved_share_is_not_old"
    ),
    "room that becomes free there is for the old ask; it works in all policies and on a full cluster": (
        "placement/test_agent_holds::test_an_old_large_ask_starts_beside_endless_small_work"
    ),
    "one agent at a time for a role, for the oldest": (
        "placement/test_agent_holds::test_one_agent_is_reserved_at_a_time_for_the_oldest"
    ),
    "higher priorities use the room, the same priority does not": (
        "placement/test_agent_holds::"
        "test_work_of_higher_priority_uses_the_room_of_an_old_ask_and_the_same_priority_does_not"
    ),
    "the search for victims counts the room as free for those who outrank the old ask, and for no others": (
        "placement/test_old_work::test_held_room_is_free_for_those_who_outrank_old_work "
        "placement/test_old_work::test_held_room_is_not_free_for_those_who_do_not_outrank_old_work "
        "session/test_victims::test_nothing_is_evicted_for_others_where_more_has_to_end_for_old_work"
    ),
    "an old ask whose queue is entitled to room gets it as the budgets admit": (
        "F01 F02 F03 placement/test_old_work::test_old_work_is_given_room_by_one_end_after_the_other"
    ),
    "nothing ends for an old ask unless all that it needs may end": (
        "placement/test_old_work::test_nothing_ends_if_not_all_that_are_needed_may_end "
        "placement/test_old_work::test_the_hold_ends_if_the_rest_may_not_end_any_more"
    ),
    # Pauses.
    "an eviction that has not helped pauses the pair": (
        "I86 placement/test_pauses::test_an_eviction_whose_beneficiary_does_not_start_pauses_the_pair"
    ),
    "the pause doubles up to an hour": (
        "placement/test_pauses::test_each_repetition_doubles_the_pause_up_to_the_longest"
    ),
}
RULES = {
    f"{part}: {rule}": tests
    for part, rules in (("sessions", SESSIONS), ("trees", TREE), ("both", BOTH))
    for rule, tests in rules.items()
}


@cache
def known() -> frozenset[str]:
    """Everything that an entry may name."""
    found = {vector.id for path in sorted((ROOT / "tests/vectors").glob("*.json")) for vector in read(path)}
    for folder in ("unit", "component"):
        top = ROOT / "tests" / folder
        for path in sorted(top.rglob("test_*.py")):
            names = re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
            within = "" if path.parent == top else f"{path.parent.name}/"
            found.update(f"{within}{path.stem}::{name}" for name in names)
    for path in sorted((ROOT / "tests/simulation/policies").glob("*.py")):
        found.update(re.findall(r'Violation\("(I\d+)"', path.read_text(encoding="utf-8")))
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        found.update(re.findall(r'"((?:policy|queues)-[a-z0-9-]+)"', path.read_text(encoding="utf-8")))
    return frozenset(found)


@pytest.mark.parametrize("part", [SESSIONS, TREE, BOTH], ids=["sessions", "trees", "both"])
def test_each_rule_names_tests_that_exist(part: Mapping[str, str]) -> None:
    missing = {rule: name for rule, names in part.items() for name in names.split() if name not in known()}
    assert missing == {}
    assert all(part.values())


def test_a_name_that_does_not_exist_is_found() -> None:
    assert known().isdisjoint({"E99", "I99", "policy/test_rules::test_none", "queues-none"})
    assert len(RULES) == len(SESSIONS) + len(TREE) + len(BOTH) > 100
