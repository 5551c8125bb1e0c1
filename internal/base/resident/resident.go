// Package resident reduces the memory that this process occupies.
package resident
