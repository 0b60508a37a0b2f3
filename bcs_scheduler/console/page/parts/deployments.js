// What deployments are doing.

const HALTED = new Set(["UpdateSuspend", "UpdatePaused"]);

// An update that does not continue by itself.
export const halted = (found) => HALTED.has(found.status);

// An update is in progress. `is_in_rolling` is false between two steps.
export const updating = (found) => found.status === "Update" || halted(found);

// Why a deployment is not as it is defined, as in `bcs get`; empty if it is.
export function reasonOf(found) {
  const done = found.status === "Running" && found.progress.done >= found.progress.total;
  if (done && found.counts.ready >= found.instances) return "";
  if (halted(found)) return [found.message, found.reason].filter(Boolean).join("; ");
  const short = found.conditions.find(({ type, status: holds }) => type === "Available" && holds === "False");
  return found.reason || found.message || short?.message || "";
}
