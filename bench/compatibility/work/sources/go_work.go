// SPDX-License-Identifier: Apache-2.0
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
)

func work(seed int) string {
	rows := map[string][]int{}
	for i := 0; i < 100000; i++ {
		key := fmt.Sprint("k", i*seed%5003)
		rows[key] = append(rows[key], i)
	}
	text, _ := json.Marshal(rows)
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

func main() {
	var all sync.WaitGroup
	out := make([]string, 4)
	for i := range out {
		all.Add(1)
		go func() { defer all.Done(); out[i] = work(i + 3) }()
	}
	all.Wait()
	fmt.Println(out)

}
