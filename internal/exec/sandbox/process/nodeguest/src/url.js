// How values of Node's classes are encoded.

import { apply, base64, define, named, uncurry } from "./primordials.js";
import { teach, writing } from "./json.js";

teach(URLSearchParams.prototype, uncurry(URLSearchParams.prototype.toString));

const { toJSON } = Buffer.prototype;
define(Buffer.prototype, "toJSON", named(function () { return writing() ? base64(this) : apply(toJSON, this, []); }, "toJSON"));
