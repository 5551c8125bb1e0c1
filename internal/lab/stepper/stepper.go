// Package stepper kills a process before a chosen one of its steps, so that tests find out what it
// leaves behind. Steps are system calls by which a process changes something outside its memory.
package stepper
