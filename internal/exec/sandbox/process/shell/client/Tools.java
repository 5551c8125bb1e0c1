import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Calls the tools that a program may use. Values are Map, List, String, Long, BigInteger, Double, Boolean and null. */
public final class Tools {
    private static final String SOCKET = "/tmp/.biplane/tools";
    private static final int MAX_DEPTH = 200;

    private Tools() {}

    /** The error of a call. */
    public static final class ToolException extends RuntimeException {
        private static final long serialVersionUID = 1;
        public final String kind;
        public final transient Object data;

        ToolException(String kind, String message, Object data) {
            super(message);
            this.kind = kind;
            this.data = data;
        }
    }

    /** Calls a tool without arguments. */
    public static Object call(String path) {
        return call(path, (Map<?, ?>) null);
    }

    /** Calls a tool with names and values: Tools.call("github.list_issues", "repo", "a/b", "limit", 3). */
    public static Object call(String path, String name, Object value, Object... more) {
        Map<String, Object> args = new LinkedHashMap<>();
        args.put(name, value);
        if (more.length % 2 != 0) {
            throw new IllegalArgumentException("each argument needs a name and a value");
        }
        for (int i = 0; i < more.length; i += 2) {
            args.put((String) more[i], more[i + 1]);
        }
        return call(path, args);
    }

    /** Calls a tool by its path, with its arguments. */
    public static Object call(String path, Map<?, ?> args) {
        Map<String, Object> request = new LinkedHashMap<>();
        request.put("path", path);
        if (args != null) {
            request.put("args", args);
        }
        return send(request);
    }

    /** Finds tools by what they do. */
    public static Object search(String query) {
        return call("biplane.search", "query", query);
    }

    /** Gives a file, or a handle from a result, to the user. */
    public static void emit(String what) {
        send(Map.of("emit", what));
    }

    private static Object send(Map<String, ?> request) {
        byte[] line = (toJson(request) + "\n").getBytes(StandardCharsets.UTF_8);
        ByteArrayOutputStream reply = new ByteArrayOutputStream();
        try (SocketChannel c = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            c.connect(UnixDomainSocketAddress.of(SOCKET));
            for (ByteBuffer out = ByteBuffer.wrap(line); out.hasRemaining(); ) {
                c.write(out);
            }
            ByteBuffer in = ByteBuffer.allocate(64 << 10);
            while (c.read(in) >= 0) {
                reply.write(in.array(), 0, in.position());
                in.clear();
            }
        } catch (IOException e) {
            throw new ToolException("internal", "call a tool: " + e.getMessage(), null);
        }
        if (reply.size() == 0) {
            throw new ToolException("internal", "call a tool: there is no answer", null);
        }
        Map<?, ?> answer = (Map<?, ?>) parse(reply.toString(StandardCharsets.UTF_8));
        if (answer.get("error") instanceof Map<?, ?> e) {
            throw new ToolException((String) e.get("kind"), (String) e.get("message"), e.get("data"));
        }
        return answer.get("value");
    }

    /** Returns a value as JSON. */
    public static String toJson(Object value) {
        StringBuilder b = new StringBuilder();
        write(b, value, 0);
        return b.toString();
    }

    private static void write(StringBuilder b, Object value, int depth) {
        if (depth > MAX_DEPTH) {
            throw new IllegalArgumentException("the value is too deep");
        }
        if (value instanceof Double d && !Double.isFinite(d)) {
            b.append("null");
        } else if (value == null || value instanceof Boolean || value instanceof Number) {
            b.append(value);
        } else if (value instanceof Map<?, ?> map) {
            String comma = "{";
            for (Map.Entry<?, ?> e : map.entrySet()) {
                b.append(comma);
                quote(b, String.valueOf(e.getKey()));
                b.append(':');
                write(b, e.getValue(), depth + 1);
                comma = ",";
            }
            b.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            b.append('[');
            String comma = "";
            for (Object item : items) {
                b.append(comma);
                write(b, item, depth + 1);
                comma = ",";
            }
            b.append(']');
        } else if (value instanceof Object[] items) {
            write(b, java.util.Arrays.asList(items), depth);
        } else {
            quote(b, value.toString());
        }
    }

    private static void quote(StringBuilder b, String text) {
        b.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < 0x20 || Character.isSurrogate(c)) {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        b.append('"');
    }

    /** Parses JSON. */
    public static Object parse(String text) {
        Parser p = new Parser(text);
        Object value = p.value(0);
        p.space();
        if (p.at < text.length()) {
            throw p.error();
        }
        return value;
    }

    private static final class Parser {
        private final String text;
        private int at;

        Parser(String text) {
            this.text = text;
        }

        IllegalArgumentException error() {
            return new IllegalArgumentException("invalid JSON at character " + at);
        }

        char peek() {
            return at < text.length() ? text.charAt(at) : 0;
        }

        void space() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
        }

        boolean skip(char c) {
            space();
            if (peek() != c) {
                return false;
            }
            at++;
            return true;
        }

        Object word(String word, Object value) {
            if (!text.startsWith(word, at)) {
                throw error();
            }
            at += word.length();
            return value;
        }

        Object value(int depth) {
            space();
            if (depth > MAX_DEPTH) {
                throw new IllegalArgumentException("the JSON is too deep");
            }
            switch (peek()) {
                case 'n':
                    return word("null", null);
                case 't':
                    return word("true", true);
                case 'f':
                    return word("false", false);
                case '"':
                    return string();
                case '[':
                    at++;
                    List<Object> items = new ArrayList<>();
                    if (skip(']')) {
                        return items;
                    }
                    do {
                        items.add(value(depth + 1));
                    } while (skip(','));
                    if (!skip(']')) {
                        throw error();
                    }
                    return items;
                case '{':
                    at++;
                    Map<String, Object> members = new LinkedHashMap<>();
                    if (skip('}')) {
                        return members;
                    }
                    do {
                        space();
                        String name = string();
                        if (!skip(':')) {
                            throw error();
                        }
                        members.put(name, value(depth + 1));
                    } while (skip(','));
                    if (!skip('}')) {
                        throw error();
                    }
                    return members;
                default:
                    return number();
            }
        }

        Object number() {
            int from = at;
            while (at < text.length() && "0123456789+-.eE".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            String n = text.substring(from, at);
            if (n.isEmpty()) {
                throw error();
            }
            if (n.indexOf('.') >= 0 || n.indexOf('e') >= 0 || n.indexOf('E') >= 0) {
                return new BigDecimal(n).doubleValue();
            }
            BigInteger i = new BigInteger(n);
            if (i.bitLength() < 64) {
                return i.longValue();
            }
            return i;
        }

        String string() {
            if (peek() != '"') {
                throw error();
            }
            at++;
            StringBuilder b = new StringBuilder();
            while (at < text.length()) {
                char c = text.charAt(at++);
                if (c == '"') {
                    return b.toString();
                }
                if (c != '\\') {
                    b.append(c);
                    continue;
                }
                char escaped = peek();
                at++;
                switch (escaped) {
                    case 'n' -> b.append('\n');
                    case 't' -> b.append('\t');
                    case 'r' -> b.append('\r');
                    case 'b' -> b.append('\b');
                    case 'f' -> b.append('\f');
                    case '"', '\\', '/' -> b.append(escaped);
                    case 'u' -> {
                        if (at + 4 > text.length()) {
                            throw error();
                        }
                        b.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                        at += 4;
                    }
                    default -> throw error();
                }
            }
            throw error();
        }
    }
}
