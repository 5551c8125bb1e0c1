// What the bundled path library asks of process.
export const __cwd = () => "/";
