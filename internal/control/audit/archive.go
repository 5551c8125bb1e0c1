package audit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
	"github.com/biplane-dev/biplane/internal/tool"
)

// actionArchive is the action of the record of a new segment.
const actionArchive = "archive"

// An archiveTurn is held while leaves are moved to a segment.
type archiveTurn struct{ sync.Mutex }

// CountOld returns the number of leaves from before a time that ArchiveNext would move.
func (l *Log) CountOld(ctx context.Context, before time.Time) (int64, error) {
	s, err := l.segmentStore()
	if err != nil {
		return 0, err
	}
	return s.CountOld(ctx, before)
}

// ArchiveNext moves the oldest leaves from before a time to a new segment. It returns nil if there
// are none. The file is on the disk, and the move is on record, before a leaf leaves the log. An
// interrupted move is completed first.
func (l *Log) ArchiveNext(ctx context.Context, before time.Time) (*segment.Header, error) {
	if err := l.Found(); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "nothing is archived: %w", err)
	}
	l.archiving.Lock()
	defer l.archiving.Unlock()
	s, err := l.segmentStore()
	if err != nil {
		return nil, err
	}
	var h *segment.Header
	if err = s.FinishMove(ctx, l.signer.Public()); err == nil {
		h, err = s.WriteNext(ctx, before, func(h *segment.Header) error { return h.SignHeader(l.signer) })
	}
	if err != nil {
		if tool.AsError(err).Kind == tool.Conflict {
			l.Doubt(ctx, actionArchive, err)
		}
		return nil, err
	}
	if h == nil {
		return nil, nil
	}
	_, err = l.Event(ctx, Event{Kind: KindRecord, Subject: Subject{Name: h.FileName()}, Detail: map[string]string{
		actionDetail: actionArchive, "first": strconv.FormatInt(h.First, 10),
		"last": strconv.FormatInt(h.First+h.Count-1, 10), "digest": "sha256:" + h.Digest}})
	if err != nil {
		return nil, err
	}
	return h, s.MoveLeaves(ctx, h)
}

// segmentStore returns the store of the segments.
func (l *Log) segmentStore() (segment.Store, error) {
	s, ok := l.store.(segment.Store)
	if !ok {
		return nil, tool.Errorf(tool.Unavailable, "this audit record can't be archived")
	}
	return s, nil
}

// An archiveCheck compares the segments with their signed headers.
type archiveCheck struct {
	absent []*segment.Header // of the segments whose files are missing
	since  time.Time         // time of the oldest leaf of a missing segment; zero: none is missing
	until  time.Time         // time of the newest leaf of a missing segment
}

// checkSegments checks the files of all segments, and reports their faults to v.
func (c *archiveCheck) checkSegments(v *verifier, view View) {
	all, err := view.ListSegments()
	if err != nil {
		v.reportFault(Fault{What: faultStore, Seq: -1, Last: -1,
			Msg: fmt.Sprintf("the list of segments can't be read: %v", err)})
		return
	}
	for _, s := range all {
		fault := Fault{What: faultArchive, Seq: s.First, Last: s.Last}
		name := filepath.Base(s.Path)
		h, err := segment.ParseHeader(s.Note, v.log.signer.Public())
		if err == nil && (h.First != s.First || h.First+h.Count-1 != s.Last) {
			err = errors.New("it is about other leaves")
		}
		if err != nil {
			fault.What, fault.Msg = faultChanged, fmt.Sprintf("the header of the segment %s was changed: %v", name, err)
			v.reportFault(fault)
			continue
		}
		switch stored, err := segment.CheckFile(s.Path, v.log.signer.Public()); {
		case errors.Is(err, segment.ErrMissing):
			c.addAbsent(h)
			fault.Msg = fmt.Sprintf("the segment %s with the leaves %d to %d, from %s to %s, is missing: put the file "+
				"back into the folder %s", name, s.First, s.Last, h.Since.Format(time.RFC3339),
				h.Until.Format(time.RFC3339), filepath.Dir(s.Path))
			v.noteFault(fault) // the file may have been moved elsewhere on purpose
		case err == nil && stored.Note != h.Note:
			err = errors.New("it has another header")
			fallthrough
		case err != nil:
			fault.What, fault.Msg = faultChanged, fmt.Sprintf("the segment %s was changed: %v", name, err)
			v.reportFault(fault)
		default:
			v.r.Segments++
		}
	}
}

func (c *archiveCheck) addAbsent(h *segment.Header) {
	c.absent = append(c.absent, h)
	if c.since.IsZero() || h.Since.Before(c.since) {
		c.since = h.Since
	}
	if h.Until.After(c.until) {
		c.until = h.Until
	}
}

// isAbsent reports whether a leaf is in a segment that is missing.
func (c *archiveCheck) isAbsent(seq int64) bool {
	for _, h := range c.absent {
		if h.First <= seq && seq < h.First+h.Count {
			return true
		}
	}
	return false
}

// A signedSegments knows the segments of a view whose headers are signed. A row of the database
// that says that leaves are in another one says nothing about the leaves.
type signedSegments struct {
	view   View
	signer *proof.Signer // its keys are created on first use
	all    []segment.Stored
	known  map[string]bool // by name
}

// newSignedSegments returns the segments of a view.
func (l *Log) newSignedSegments(v View) *signedSegments {
	return &signedSegments{view: v, signer: l.signer, known: map[string]bool{}}
}

// hasSegment reports whether a segment has a signed header.
func (s *signedSegments) hasSegment(name string) bool {
	if signed, ok := s.known[name]; ok || name == "" {
		return signed
	}
	if s.all == nil {
		s.all, _ = s.view.ListSegments() // without a list, none is known
	}
	for _, one := range s.all {
		if segment.FileName(one.First, one.Last) != name {
			continue
		}
		h, err := segment.ParseHeader(one.Note, s.signer.Public())
		s.known[name] = err == nil && h.FileName() == name
	}
	return s.known[name]
}
