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

// spawnOnThread starts a program on a thread of its own, sends it a line, and returns. The system
// kills a sandbox when the thread that started it ends. So the thread waits for the program, and
// then closes b.ended.
func (b *box) spawnOnThread(program string, command []string, files []*os.File, line []byte, t *thread) error {
	started := make(chan error, 1)
	spawn := func(network error) (clean bool) {
		attributes := processAttributes()
		leaveNetwork := func() error { return nil }
		if t != nil { // the process inherits the thread's network
			attributes.Cloneflags &^= unix.CLONE_NEWNET
			leaveNetwork = func() error { return enterNetwork(t.host) }
		}
		if network != nil {
			started <- network
			return false
		}
		leave, err := b.group.enrollThread(attributes)
		if err != nil {
			started <- err
			return false
		}
		p, err := os.StartProcess(program, append([]string{"biplane"}, command...), &os.ProcAttr{
			Dir: "/", Env: enterEnvironment, Files: files, Sys: attributes,
		})
		if err == nil {
			if err = launch.MapUser(p.Pid, entry.Insider); err != nil { // the process waits for its setup
				_ = p.Kill() // it may have ended
				_, _ = p.Wait()
			} else {
				_, _ = b.conn.Write(line) // another goroutine would do so later; awaitAgent notices a failure
			}
		}
		ended := make(chan struct{})
		if err == nil {
			b.process, b.ended = p, ended
			started <- nil
		}
		clean = errors.Join(leave(), leaveNetwork()) == nil // the process need not wait for that
		if err != nil {
			started <- tool.Errorf(tool.Unavailable, "start a process in new namespaces: %w (are user namespaces "+
				"allowed for this user?)", err)
			return clean
		}
		b.state, _ = p.Wait()
		close(ended)
		return clean
	}
	if t != nil {
		t.startWork(spawn)
	} else {
		runOnThread(func() {
			if spawn(nil) { // otherwise the thread ends
				runtime.UnlockOSThread()
			}
		})
	}
	return <-started
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
