// Node has its own randomness and clocks.
export function seed() {}
