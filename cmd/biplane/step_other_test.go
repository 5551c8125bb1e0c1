//go:build !linux

package main

// stepping can't be done here: see step_linux_test.go.
func stepping() {}
