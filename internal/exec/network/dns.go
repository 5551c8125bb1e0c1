package network

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Answers to names.
const (
	nameLife     = 60 // seconds that an answer may be kept
	maxQuestion  = 512
	maxAsking    = 16 // questions that are answered at a time
	maxQuestions = 100
)

// serveNames answers questions over UDP until the deadline of the socket is set.
func (s *service) serveNames(ctx context.Context, c *net.UDPConn) {
	turns := make(chan struct{}, maxAsking)
	for {
		b := make([]byte, maxQuestion)
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // an ICMP error of an earlier answer
		}
		turns <- struct{}{}
		if !s.beginWork() {
			return
		}
		go func() {
			defer func() { <-turns; s.work.Done() }()
			if answer := s.answerQuestion(ctx, b[:n]); answer != nil {
				_, _ = c.WriteToUDPAddrPort(answer, from) // the program asks again
			}
		}()
	}
}

// serveLongNames answers questions over TCP.
func (s *service) serveLongNames(ctx context.Context, c net.Conn) {
	for range maxQuestions {
		_ = c.SetDeadline(time.Now().Add(sniffTime)) // fails only if it is closed
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, b); err != nil || len(b) > maxQuestion {
			return
		}
		answer := s.answerQuestion(ctx, b)
		if answer == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// answerQuestion returns the answer to a program's question, or nil if the message is not a
// question. No question leaves the sandbox: a permitted name has an address of the sandbox's own,
// and is looked up when a connection to it was permitted.
func (s *service) answerQuestion(ctx context.Context, b []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || h.Response {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode,
		RecursionDesired: h.RecursionDesired, RecursionAvailable: true}}
	q, err := p.Question()
	if err != nil || h.OpCode != 0 {
		reply.RCode = dnsmessage.RCodeFormatError
		return packReply(&reply)
	}
	reply.Questions = []dnsmessage.Question{q}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) || q.Class != dnsmessage.ClassINET {
		reply.RCode = dnsmessage.RCodeRefused
		return packReply(&reply)
	}
	var a netip.Addr
	a, reply.RCode = s.resolveName(ctx, q.Name.String(), q.Type)
	if a.IsValid() {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: nameLife},
			Body:   &dnsmessage.AResource{A: a.As4()}}}
	}
	return packReply(&reply)
}

func packReply(m *dnsmessage.Message) []byte {
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// resolveName returns the address of a name. Without one, the code says why. Types other than A and
// AAAA are refused, except what clients ask for before they use these: such types have no records,
// so no key for an encrypted ClientHello is known, and no other port or protocol.
func (s *service) resolveName(ctx context.Context, text string, kind dnsmessage.Type) (netip.Addr, dnsmessage.RCode) {
	none := netip.Addr{}
	name, err := canonicalHost(text)
	if a, bad := netip.ParseAddr(name); err == nil && bad == nil {
		err = errHost(a.String()) // an address is not a name
	}
	switch {
	case err != nil:
		return none, dnsmessage.RCodeNameError
	case name == "localhost" && kind == dnsmessage.TypeA:
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), dnsmessage.RCodeSuccess
	case name == "localhost":
		return none, dnsmessage.RCodeSuccess
	case !s.reachesName(name):
		s.recordRefusal(ctx, name)
		return none, dnsmessage.RCodeNameError
	}
	switch kind {
	case dnsmessage.TypeA:
		if a, ok := s.gate.pins.pinName(name); ok {
			return a, dnsmessage.RCodeSuccess
		}
		s.traffic.AddNote("network: this sandbox has asked for too many names: use fewer hosts, or a new session")
		return none, dnsmessage.RCodeRefused
	case dnsmessage.TypeAAAA, dnsmessage.TypeHTTPS, dnsmessage.TypeSVCB:
		return none, dnsmessage.RCodeSuccess
	}
	s.traffic.AddNote("network: DNS records of type " + kind.String()[len("Type"):] +
		" are not available: only the addresses of hosts are")
	return none, dnsmessage.RCodeRefused
}

// recordRefusal records that a name was refused, once in a run.
func (s *service) recordRefusal(ctx context.Context, name string) {
	s.mu.Lock()
	c := s.currentCounts()
	known := c.refusals[name] || len(c.refusals) >= maxRecorded || c.names > maxVerdicts
	if !known {
		c.refusals[name] = true
	}
	s.mu.Unlock()
	if !known {
		_ = s.callNetwork(ctx, "connect", http.MethodConnect, target{name, 443}.makeURL("https", "/"), refusal{})
	}
}
