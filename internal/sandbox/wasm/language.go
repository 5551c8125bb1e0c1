package wasm

// A language is a kind of guest: an engine, and the image that its guests begin with.
type language struct {
	name  string // Spec.Runtime
	title string // of the engine with its version, for people; TestGolden compares it with what the engine says of itself
	// polls says that the engine asks its host now and then whether to stop (host.interrupted). Guests of one that
	// doesn't are stopped by taking their memory away, at once, and don't step back for others: they give their turn
	// away after a quantum, and go on.
	polls  bool
	module string        // SHA-256 of the WebAssembly module, in hexadecimal digits
	source func() string // the guest's side of the protocol, which boot evaluates
	// plain says that the golden image isn't compressed: it is unpacked by every process, before its first program.
	plain  bool
	first  string // a first line of the host's, as usual as can be: what it has the guest write to is made ready for all
	golden []byte // the packed image, empty where there is none

	// attach puts the engine over the region of g, which holds the image that boot gave words for.
	attach func(g *guest, words []uint32) engine
	// boot starts the engine over the region of g, which is empty, and evaluates source in it. It sets g.engine as soon
	// as there is one, and gives what attach needs to know and the engine's version. It runs inside an entry of g.
	boot func(g *guest, source string) (words []uint32, version string, err error)
	// trial has the guest multiply or, endless, run until it is stopped. It runs inside an entry.
	trial func(e engine, endless bool) error
}

// An engine is the code of one guest over the memory of its region. All but trap, state, dead and resume run inside entries of the
// guest (guest.enter), where they may panic with what trap knows or with an abort.
type engine interface {
	// limit bounds the guest, before its first entry, fresh or resumed.
	limit(memory, stack int64)
	// deliver gives the guest a line of the host's, without its '\n'.
	deliver(line string) error
	// work does all that is left to do, until the guest waits for the host.
	work() error
	// trap says what a panic that was recovered from an entry means, or gives nil where the guest can't have caused it.
	trap(recovered any) error
	// state gives what of the guest isn't in its memory, between two entries, in at most maxState bytes. It is an error when
	// the guest isn't at rest.
	state() ([]byte, error)
	// dead gives the parts of the memory whose content means nothing between two entries, such as the unused stack and free
	// memory: where a whole page is dead, a snapshot leaves it out.
	dead() []span
	// resume takes what state gave, which may have been changed: whatever it is, it must give the guest nothing.
	resume(state []byte) error
}

// languages are what guests may be written in; the first is what a Spec without a Runtime means.
func languages() []language { return []language{javaScript(), python()} }

// magic is what the language's packed image begins with.
func (l language) magic() string {
	if l.plain {
		return plainMagic
	}
	return imageMagic
}

// A span of a guest's memory: [from, to).
type span struct{ from, to uint32 }
