// URL, URLSearchParams and structuredClone from core-js.
import "../../../../../../third_party/core-js/modules/web.url.js";
import "../../../../../../third_party/core-js/modules/web.url.to-json.js";
import "../../../../../../third_party/core-js/modules/web.url.can-parse.js";
import "../../../../../../third_party/core-js/modules/web.url.parse.js";
import "../../../../../../third_party/core-js/modules/web.url-search-params.js";
import "../../../../../../third_party/core-js/modules/web.url-search-params.delete.js";
import "../../../../../../third_party/core-js/modules/web.url-search-params.has.js";
import "../../../../../../third_party/core-js/modules/web.url-search-params.size.js";
import "../../../../../../third_party/core-js/modules/web.structured-clone.js";
import { uncurry } from "./primordials.js";
import { teach } from "./json.js";

teach(URLSearchParams.prototype, uncurry(URLSearchParams.prototype.toString));
