// The part of process that the bundled path library uses.
export const __cwd = () => "/";
