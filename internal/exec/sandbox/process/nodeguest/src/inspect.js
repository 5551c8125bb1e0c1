// Node's own formatting of values.
import * as util from "node:util";

const { inspect, format, formatWithOptions } = util;
export default { inspect, format, formatWithOptions };
