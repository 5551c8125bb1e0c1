package wasm

// A language is a kind of guest: an engine, and the image with which its guests start.
type language struct {
	name  string // Spec.Runtime
	title string // engine and version, for users; TestGolden compares it with the engine's own report
	// polls means that the engine regularly polls host.interrupted. Guests of an engine that
	// doesn't are stopped immediately by revoking their memory. They don't yield to others: after a
	// quantum they release their turn and continue.
	polls  bool
	module string // SHA-256 of the WebAssembly module, in hexadecimal digits
	// plain means that the golden image isn't compressed: every process unpacks it before its first
	// program.
	plain bool
	// a typical first line of the host: the pages that it makes the guest write are prepared for
	// all guests
	first  string
	golden []byte // the packed image; empty if there is none

	starter
}

// A starter creates the engines of a language.
type starter interface {
	// bootSource returns the guest's side of the protocol, which bootEngine evaluates.
	bootSource() string
	// attachEngine attaches the engine to the region of g, which holds the image for which
	// bootEngine returned words.
	attachEngine(g *guest, words []uint32) engine
	// bootEngine starts the engine in the empty region of g and evaluates source. It sets g.engine
	// as soon as possible, and returns the words for attachEngine and the engine's version. It runs
	// inside an entry of g.
	bootEngine(g *guest, source string) (words []uint32, version string, err error)
}

// An engine is the code of one guest over the memory of its region. All methods except trap, state,
// dead and resume run inside entries of the guest (guest.enter), where they may panic with an abort
// or a value known to trap.
type engine interface {
	// limit sets the guest's limits. It is called before the first entry of a fresh or resumed
	// guest.
	limit(memory, stack int64)
	// deliver passes a line from the host, without its '\n', to the guest.
	deliver(line string) error
	// work runs the guest until it waits for the host.
	work() error
	// runTrial makes the guest multiply or, if endless, run until it is stopped.
	runTrial(endless bool) error
	// trap returns the error for a panic recovered from an entry, or nil if the guest can't have
	// caused it.
	trap(recovered any) error
	// state returns the guest's state outside of its memory, between two entries, in at most
	// maxState bytes. It fails if the guest isn't at rest.
	state() ([]byte, error)
	// dead returns the parts of the memory whose content is unused between two entries, such as the
	// unused stack and free memory. A snapshot omits pages that are entirely dead.
	dead() []span
	// resume restores the result of state, which may have been modified: whatever it is, it must
	// not grant the guest anything.
	resume(state []byte) error
}

// languages returns the supported languages; the first is the default of Spec.Runtime.
func languages() []language { return []language{javaScript(), python()} }

// magic returns the first bytes of the language's packed image.
func (l language) magic() string {
	if l.plain {
		return plainMagic
	}
	return imageMagic
}

// A span is a range of a guest's memory: [from, to).
type span struct{ from, to uint32 }
