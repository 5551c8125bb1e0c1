package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A hostNetwork is the network namespace of this process. Threads that made another one return to
// it. An ordinary user's threads may not do either.
type hostNetwork struct {
	once sync.Once
	file *os.File // nil: threads may not switch namespaces
}

// openOnce returns the namespace, or nil if threads may not make another and return.
func (n *hostNetwork) openOnce() *os.File {
	n.once.Do(func() {
		f, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return
		}
		tried := make(chan error)
		runOnThread(func() { // without UnlockOSThread: the thread ends
			tried <- errors.Join(makeNetwork(true), enterNetwork(f))
		})
		if <-tried != nil {
			_ = f.Close() // it isn't needed
			return
		}
		n.file = f
	})
	return n.file
}

// makeNetwork moves the calling thread to a new network namespace, which has nothing but a loopback
// interface. It raises the interface if loopback is set.
func makeNetwork(loopback bool) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network: %w", err)
	}
	if !loopback {
		return nil
	}
	if err := netns.RaiseLoopback(); err != nil {
		return fmt.Errorf("raise the loopback interface: %w", err)
	}
	return nil
}

// A thread starts a sandbox. It makes the sandbox's network namespace while other parts of the
// sandbox are prepared: half a millisecond, on another processor.
type thread struct {
	host *os.File // where it returns
	// work receives what the thread does, with the error of making the network. clean reports
	// whether the thread is back in the gateway's namespaces and groups, and can be used again.
	work chan func(network error) (clean bool)
	once sync.Once
}

// prepareThread returns a thread that makes a network, or nil if it may not.
func (d *Driver) prepareThread(loopback bool) *thread {
	host := d.network.openOnce()
	if host == nil {
		return nil
	}
	t := &thread{host: host, work: make(chan func(error) bool, 1)}
	d.threads.Add(1) // Close waits for it
	runOnThread(func() {
		defer d.threads.Done()
		err := makeNetwork(loopback)
		clean := false
		if f, ok := <-t.work; ok {
			clean = f(err)
		} else {
			clean = enterNetwork(t.host) == nil
		}
		if clean { // otherwise the thread ends
			runtime.UnlockOSThread()
		}
	})
	return t
}

// dismissThread releases a thread that was given no work. It may be nil.
func (t *thread) dismissThread() {
	if t != nil {
		t.once.Do(func() { close(t.work) })
	}
}

// startWork makes the thread do its work.
func (t *thread) startWork(f func(network error) (clean bool)) {
	t.once.Do(func() { t.work <- f })
}

// enterNetwork moves the calling thread to a network namespace.
func enterNetwork(f *os.File) error { return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET) }

// enterEnvironment is the environment of the process that becomes the interpreter. It starts few
// threads, and doesn't follow changes of the number of processors.
var enterEnvironment = []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=updatemaxprocs=0,containermaxprocs=0"}

// A spawn is the start of a sandbox's process.
type spawn struct {
	box     *box
	program string
	command []string
	files   []*os.File
	line    []byte     // that the process receives first
	thread  *thread    // whose network the process inherits; nil: the process makes one
	started chan error // receives one error, or nil, before the thread waits for the process
}

// spawnOnThread starts a process on a thread of its own, and returns when it has started. The
// system kills a sandbox when the thread that started it ends. So the thread waits for the process,
// and then closes box.ended.
func (s *spawn) spawnOnThread() error {
	s.started = make(chan error, 1)
	if s.thread != nil {
		s.thread.startWork(s.runProcess)
	} else {
		runOnThread(func() {
			if s.runProcess(nil) { // otherwise the thread ends
				runtime.UnlockOSThread()
			}
		})
	}
	return <-s.started
}

// runProcess starts the process, and waits for its end. network is the error of making the thread's
// network. It reports whether the thread is back in the gateway's namespaces and groups.
func (s *spawn) runProcess(network error) (clean bool) {
	if network != nil {
		s.started <- network
		return false
	}
	p, leave, err := s.startProcess()
	if err != nil {
		clean = leave() == nil // before the group is removed
		s.started <- err
		return clean
	}
	b := s.box
	b.process, b.ended = p, make(chan struct{})
	s.started <- nil
	clean = leave() == nil // the process need not wait for that
	b.state, _ = p.Wait()
	close(b.ended)
	return clean
}

// errEnrolled is the error of leaving a group that the thread may have entered in part.
var errEnrolled = errors.New("the thread is in a group of a sandbox")

// startProcess starts the process, and sends it its line. leave moves the thread back to the
// gateway's namespaces and groups. It must be called whatever err is, and fails if the thread can't
// be used again.
func (s *spawn) startProcess() (p *os.Process, leave func() error, err error) {
	attributes := processAttributes()
	if s.thread != nil {
		attributes.Cloneflags &^= unix.CLONE_NEWNET
	}
	leaveGroup, err := s.box.group.enrollThread(attributes)
	if err != nil {
		return nil, func() error { return errEnrolled }, err
	}
	leave = func() error {
		if s.thread == nil {
			return leaveGroup()
		}
		return errors.Join(leaveGroup(), enterNetwork(s.thread.host))
	}
	p, err = os.StartProcess(s.program, append([]string{"biplane"}, s.command...), &os.ProcAttr{
		Dir: "/", Env: enterEnvironment, Files: s.files, Sys: attributes,
	})
	if err == nil {
		err = s.completeStart(p)
	}
	if err != nil {
		return nil, leave, tool.Errorf(tool.Unavailable, "start a process in new namespaces: %w (are user namespaces "+
			"allowed for this user?)", err)
	}
	return p, leave, nil
}

// completeStart sets up the user of a process, which waits for that, and sends it its line. If this
// fails, the process has ended.
func (s *spawn) completeStart(p *os.Process) error {
	if err := launch.MapUser(p.Pid, entry.Insider); err != nil {
		_ = p.Kill() // it may have ended
		_, _ = p.Wait()
		return err
	}
	_, _ = s.box.conn.Write(s.line) // another goroutine would do so later; awaitAgent notices a failure
	return nil
}

// runOnThread runs f in a goroutine that is locked to its thread. That isn't the process's first
// thread: in version 1, all memory of a process counts towards the groups of its first thread. A
// sandbox that reaches its limit would end the gateway.
func runOnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		locked := make(chan struct{})
		go func() { // on another thread: this one has the first
			runtime.LockOSThread()
			close(locked)
			f()
		}()
		<-locked
		runtime.UnlockOSThread()
	}()
}
