//go:build !linux

package main

// stepping is not supported here: see step_linux_test.go.
func stepping() {}
