# Tests, with three shards, that rows are sent only from a snapshot that contains all changes delivered to the client
# from the shared shard and the shard of its user. Changes in other shards do not delay rows.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 3 }
use Clairon::Test qw(wait_until);
use Clairon::Test::StubRows;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owners text[]);
    CREATE TABLE news (id int PRIMARY KEY);
    SELECT clairon.watch('t', 'USER', 'owners'), clairon.watch('news', 'ALL')});
my $store = Clairon::Test::store();
my $stub  = Clairon::Test::StubRows->new($pg);
my $relay = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '60s' });
my ($next, $ids) = (10, 0);
$stub->set('t');

sub request { my ($client) = @_; $client->send({ t => 'rows', r => ++$next, source => 't' }); return $next }
sub reply { my ($client, $r) = @_; return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }
sub has_reply { my ($client, $r) = @_; return scalar grep { ($_->{r} // 0) == $r } @{ $client->{messages} } }
sub repeated { return $relay->metric('clairon_rows_repeated_total') }
# Snapshots that contain all transactions up to the last transaction; the first snapshot lacks that transaction.
sub snapshot_without { my ($xid, $last) = @_; return sprintf '%s:%s:%s', $xid, ($last // $xid) + 1, $xid }
sub snapshot_with { my ($last) = @_; return sprintf '%s:%s:', $last + 1, $last + 1 }

# Commits, and waits until the relay has read the notifications. Returns the transaction id.
sub commit
{
    my ($sql) = @_;
    my $stored = $store->stored;
    my $xid = (split /\n/, $pg->safe_psql('postgres', "BEGIN; $sql; SELECT pg_current_xact_id(); COMMIT"))[-1];
    wait_until('the relay has read the notification', sub { $store->stored > $stored && $relay->metric('clairon_hub_notifications_total') >= $store->stored });
    return $xid;
}

sub row_for { my (@owners) = @_; return sprintf q{INSERT INTO t VALUES (%d, '{%s}')}, ++$ids, join ',', @owners }

sub waits_for
{
    my ($client, $xid, $what, $last) = @_;
    $last //= $xid;
    $stub->set('t', snapshot => snapshot_without($xid, $last));
    my $before = repeated();
    my $r      = request($client);
    $client->run_until('the relay queries again', sub { has_reply($client, $r) || repeated() >= $before + 2 });
    ok(!has_reply($client, $r), $what);
    $stub->set('t', snapshot => snapshot_with($last));
    is(reply($client, $r)->{snapshot}, snapshot_with($last),
        "$what: rows are sent from a snapshot that contains the change");
    return;
}

# Finds users of each shard.
my %users = map { $_ => [] } 0 .. 2;
for my $user (map { "u$_" } 1 .. 30)
{
    commit(row_for($user));
    my ($shard) = ($store->entries)[-1]{stream} =~ /\{(\d)\}/;
    push @{ $users{$shard} }, $user;
}
my ($me, $neighbour) = @{ $users{1} };
my ($other) = @{ $users{2} };
my %clients = map { $_ => $relay->client($_) } $me, $other;

waits_for($clients{$me}, commit(row_for($me)), 'rows contain a change for the user');
waits_for($clients{$me}, commit(row_for($neighbour)), 'rows contain a change for another user of the shard');
waits_for($clients{$_}, commit("INSERT INTO news VALUES (@{[ ++$ids ]})"), "rows of $_ contain a change in the shared shard") for $me, $other;
my $x = commit(row_for($other));
$stub->set('t', snapshot => snapshot_without($x));
is(reply($clients{$me}, request($clients{$me}))->{snapshot}, snapshot_without($x), 'rows may lack a change for a user of another shard');
waits_for($clients{$other}, $x, 'rows for a user of that shard contain the change');
$x = commit(row_for($me) . '; ' . row_for($other));
waits_for($clients{$_}, $x, "rows of $_ contain a transaction with changes in both shards") for $me, $other;
$x = commit(row_for($me, $other));
waits_for($clients{$_}, $x, "rows of $_ contain a change for users of both shards") for $me, $other;

# Memberships are in the shared shard.
$stub->set('t', snapshot => undef, audience => 'STRUCTURE');
reply($clients{$_}, request($clients{$_})) for $me, $other;
my $joined = $pg->safe_psql('postgres', qq{INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', '$other') RETURNING pg_current_xact_id()});
$clients{$other}->wait_for('reload');
waits_for($clients{$other}, $joined, 'rows contain a membership change in the shared shard');
$stub->set('t', audience => 'USER');

# A starting relay reads the last transaction of each shard.
my %changes = map { $_ => commit(row_for($_)) } $me, $other;
my ($last) = sort { $b <=> $a } values %changes;
$relay->restart;
%clients = map { $_ => $relay->client($_) } $me, $other;
waits_for($clients{$_}, $changes{$_}, "after a restart, rows of $_ contain the last change of its shard", $last) for $me, $other;

done_testing();
