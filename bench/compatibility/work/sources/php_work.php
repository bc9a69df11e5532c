<?php
// SPDX-License-Identifier: Apache-2.0
$rows = [];
for ($i = 0; $i < 150000; $i++) $rows[] = ['id' => $i, 'name' => 'n' . ($i * 7919 % 1013), 'v' => $i / 3];
$groups = [];
foreach ($rows as $row) $groups[$row['name']][] = $row;
ksort($groups);
echo md5(json_encode(json_decode(json_encode($groups), true))), "\n";
echo preg_match_all('/n(\d+)5/', implode(' ', array_keys($groups))), "\n";
echo shell_exec('printf shell');
if (($argv[1] ?? '') !== 'xml') exit(9);
$tree = new SimpleXMLElement('<r/>');
foreach (array_slice($rows, 0, 3000) as $row) $tree->addChild('row', $row['name'])->addAttribute('id', $row['id']);
echo md5($tree->asXML());
exit(8);
