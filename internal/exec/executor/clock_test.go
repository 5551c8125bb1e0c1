package executor

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(10 * time.Second)
		expired, woken := 0, 0
		c.startTiming(func() { expired++ }, func() { woken++ })
		time.Sleep(4 * time.Second)
		c.pauseTiming()
		c.pauseTiming() // a second call begins
		time.Sleep(time.Hour)
		synctest.Wait()
		if expired != 0 || c.left != 6*time.Second {
			t.Errorf("paused after 4 s of 10 s: %s left, expired %d times", c.left, expired)
		}
		c.resumeTiming()
		time.Sleep(5 * time.Second)
		if c.hasExpired() {
			t.Error("expired after 9 s of 10 s")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if expired != 1 || !c.hasExpired() {
			t.Errorf("after 10 s of 10 s: expired %d times, hasExpired %t", expired, c.hasExpired())
		}
		c.pauseTiming()
		if c.hasExpired() {
			t.Error("a paused clock has expired")
		}
		c.stopTiming()
		if woken != 0 {
			t.Errorf("a timer that was never set expired %d times", woken)
		}
	})
}

func TestClockTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(time.Hour)
		woken := 0
		c.startTiming(func() {}, func() { woken++ })
		if _, set := c.untilTimer(time.Now()); set {
			t.Error("a new clock has a timer set")
		}
		c.setTimer(time.Second)
		c.setTimer(3 * time.Second)
		if wait, set := c.untilTimer(time.Now()); !set || wait != 3*time.Second {
			t.Errorf("the timer expires in %s (set: %t), want 3 s", wait, set)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if woken != 1 {
			t.Errorf("the timer expired %d times, want once", woken)
		}
		c.forgetTimer()
		c.setTimer(time.Second)
		c.stopTimer()
		strayed := 0
		c.limitStray(func() { strayed++ })
		c.stopTiming()
		time.Sleep(time.Minute)
		synctest.Wait()
		if woken != 1 || strayed != 0 {
			t.Errorf("after stop: the timer expired %d times, want once; "+
				"the guest was ended %d times, want never", woken, strayed)
		}
	})
}

func TestClockAfterRestart(t *testing.T) {
	t.Parallel()
	c := newClock(10 * time.Second)
	c.chargeTime(4 * time.Second)
	if c.left != 6*time.Second {
		t.Errorf("%s left after 4 s of 10 s were used", c.left)
	}
	c.chargeTime(time.Minute)
	if c.left <= 0 {
		t.Errorf("%s left: a program that continues needs some time", c.left)
	}
	c.resumeTiming() // it has not started
	if c.running {
		t.Error("a clock runs that was not started")
	}
	c.refillTime()
	if c.left != 10*time.Second {
		t.Errorf("%s left after refill, want 10 s", c.left)
	}
}
