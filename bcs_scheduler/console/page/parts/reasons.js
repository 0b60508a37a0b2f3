// Why objects are not as they are defined: the reasons of `bcs get`.

const STUCK = new Set(["UpdateSuspend", "UpdatePaused"]);

// The reason of a deployment; empty if it is as it is defined.
export function reasonOf(found) {
  const updated = found.status === "Running" && found.progress.done >= found.progress.total;
  if (updated && found.counts.ready >= found.instances) return "";
  if (STUCK.has(found.status)) return [found.message, found.reason].filter(Boolean).join("; ");
  const short = found.conditions.find(({ type, status: holds }) => type === "Available" && holds === "False");
  return found.reason || found.message || short?.message || "";
}
