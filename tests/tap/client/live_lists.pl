# Tests that live lists of the client equal their tables, over WebSocket and SSE, through writes, a restart and
# membership changes.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

use constant TRANSACTIONS => 400;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, owner text, amount int);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true);
    CREATE TABLE notes (id int PRIMARY KEY, grp text);
    ALTER TABLE notes REPLICA IDENTITY FULL;
    SELECT clairon.watch('notes', 'STRUCTURE', 'grp', live => true);
    INSERT INTO tasks SELECT i, 'u1', 100 FROM generate_series(1, 10) i;
    INSERT INTO notes VALUES (1, 's1'), (2, 's2'), (3, 's1')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.drain' => '500ms' });

# Prints each state of both lists. The sum reveals whether part of a transaction was visible.
my $lists = <<'END';
const show = (name, list) => list.subscribe((rows) => list.loading || emit({
  name, ids: rows.map(({ id }) => id).sort((a, b) => a - b).join(), sum: rows.reduce((sum, { amount }) => sum + amount, 0),
  text: rows.map((row) => JSON.stringify(row)).sort().join(), error: list.error?.message,
}));
show('tasks', client.live('tasks'));
show('notes', client.live('notes'));
END
my @pages = map { Clairon::Test::page(name => $_->[0], websocket => $_->[1], url => $relay->url . '/v1/ws',
        token => token(sub => 'u1'), script => $lists) } [ 'websocket', 1 ], [ 'sse', 0 ];

sub states { my ($page, $name) = @_; return grep { ($_->{name} // '') eq $name } $page->events }
sub ids { my ($page, $name) = @_; my ($last) = reverse states($page, $name); return $last ? $last->{ids} : 'none' }

# Waits until the list has exactly these rows on both pages.
sub wait_ids
{
    my ($what, $name, $ids) = @_;
    return wait_until($what, sub { 2 == grep { ids($_, $name) eq $ids } @pages });
}

for my $page (@pages)
{
    wait_until('the rows of the user arrive', sub { ids($page, 'tasks') eq '1,2,3,4,5,6,7,8,9,10' });
    wait_until('the list contains no rows of other groups', sub { ids($page, 'notes') eq '' });
}
note(join ' ', map { $_->state->{transport} } @pages);

# Each transaction moves an amount between two rows, or a row between two users.
my $file = scratch() . '/transfers.sql';
open my $out, '>', $file or die "could not write $file: $!";
for my $i (1 .. TRANSACTIONS)
{
    my ($from, $to) = (1 + $i % 5, 1 + ($i + 1 + $i % 3) % 5);
    my $row = 6 + $i % 5;
    print {$out} $from == $to || $i % 10 == 0
      ? "UPDATE tasks SET owner = CASE owner WHEN 'u1' THEN 'u2' ELSE 'u1' END, amount = 0 WHERE id = $row;\n"
      : "BEGIN; UPDATE tasks SET amount = amount - 7 WHERE id = $from; UPDATE tasks SET amount = amount + 7 WHERE id = $to; COMMIT;\n";
    print {$out} "SELECT pg_sleep(0.01);\n";
}
close $out or die "could not write $file: $!";
$pg->safe_psql('postgres', 'UPDATE tasks SET amount = 0 WHERE id > 5');
for my $page (@pages)
{
    wait_until('the list contains the amounts',
        sub { my ($last) = reverse states($page, 'tasks'); $last->{sum} == 500 });
}
my @begin = map { scalar states($_, 'tasks') } @pages;
my $writer = Clairon::Test::writer($pg, $file);
wait_until('changes arrive', sub { states($pages[0], 'tasks') > $begin[0] + 20 });
for my $i (0, 1)
{
    my @states = states($pages[$i], 'tasks');
    is_deeply([ grep { $_->{sum} != 500 } @states[ $begin[$i] .. $#states ] ], [], "page $i: transactions are never partly visible");
}
is($relay->stop, 0, 'the relay shuts down gracefully while rows are written');
$relay->start;
$relay->wait_ready;
$writer->finish;

my $wanted = $pg->safe_psql('postgres', q{SELECT string_agg(id || ':' || amount, ',' ORDER BY id) FROM tasks WHERE owner = 'u1'});
for my $i (0, 1)
{
    my $page = $pages[$i];
    wait_until('the last rows arrive', sub {
        my ($last) = reverse states($page, 'tasks');
        my $rows = JSON::decode_json("[$last->{text}]");
        join(',', map { "$_->{id}:$_->{amount}" } sort { $a->{id} <=> $b->{id} } @{$rows}) eq $wanted;
    });
    pass("page $i: the list equals the table after the last change");
}

$pg->safe_psql('postgres', q{TRUNCATE tasks});
wait_ids('both lists are empty after a TRUNCATE', 'tasks', '');
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1'); INSERT INTO tasks VALUES (99, 'u1', 0)});
wait_ids('both lists contain the rows of the new group', 'notes', '1,3');
$pg->safe_psql('postgres', q{INSERT INTO notes VALUES (4, 's1'), (5, 's2')});
wait_ids('both lists contain a new row of the group', 'notes', '1,3,4');
$pg->safe_psql('postgres', q{DELETE FROM clairon.member WHERE user_id = 'u1'});
wait_ids('both lists are empty after the user left the group', 'notes', '');
is(join(' ', map { $_->problems } @pages), '', 'the pages report no gap and no error');
kill TERM => $_->pid for @pages;
$_->wait_end for @pages;

done_testing();
