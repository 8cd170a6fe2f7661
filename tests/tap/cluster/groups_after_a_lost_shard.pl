# Tests notifications of groups that follow one of a lost shard: once the store works without the shard, they do not wait
# for it. A relay that takes over the slot meanwhile still records that they follow it.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id serial PRIMARY KEY, owner text);
    CREATE TABLE many (id serial PRIMARY KEY, team text);
    SELECT clairon.watch('one', 'USER', 'owner');
    SELECT clairon.watch('many', 'TEAM', 'team')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my %conf   = (conf => { 'store.min_replicas' => 0, 'gate.ping' => '1h' });
my @feeds  = map { Clairon::Test::relay($pg, $cluster, %conf) } 1 .. 2;
my $gate   = Clairon::Test::relay(undef, $cluster, %conf, roles => 'gate');

my ($lost) = grep { $_ != $cluster->primary_of(0) } $cluster->primaries;
my ($away)  = grep { $cluster->primary_of($cluster->shard_of($_)) == $lost } map { "u$_" } 1 .. 200;
my ($member) = grep { $cluster->primary_of($cluster->shard_of($_)) != $lost } map { "u$_" } 1 .. 200;
my $shard = $cluster->shard_of($away);
$pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('TEAM', 't1', '$member')");

my %clients = map { $_ => $gate->client($_) } $away, $member;
my %expected = map { $_ => [] } $away, $member;

sub insert
{
    my ($table, $target, $user) = @_;
    my $column = $table eq 'one' ? 'owner' : 'team';
    my $id = $pg->safe_psql('postgres', "INSERT INTO $table ($column) VALUES ('$target') RETURNING id");
    push @{ $expected{$user} }, "$table $id";
    return;
}

sub received { my ($user) = @_; return map { "$_->{metadata}{source} $_->{payload}{after}{id}" } $clients{$user}->notifications }

sub wait_received
{
    my ($what, @users) = @_;
    for my $user (@users) { $clients{$user}->run_until("$what: $user receives its rows", sub { received($user) >= @{ $expected{$user} } }) }
    return;
}

# A row of the lost shard, one of another shard, and one of the group. The second row is stored after the first was sent.
sub insert_rows
{
    insert('one', $away, $away);
    insert('one', $member, $member);
    insert('many', 't1', $member);
    return;
}

insert_rows();
wait_received('before the loss', $away, $member);
wait_confirmed($pg);
$cluster->pause($lost);
for my $relay (@feeds, $gate)
{
    wait_until('the relay works without the shard', sub { $relay->log_text =~ /shards are unavailable.* shards="?[\d,]*\b$shard\b/ });
}
my ($high, $low) = split m{/}, $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
insert_rows();
wait_received('without the shard', $member);
unlike($gate->log_text, qr/shard is behind or lost data/, 'the row of the group does not wait for the lost shard');

my ($holder) = grep { $_->metric('clairon_feed_connected') } @feeds;
my ($other)  = grep { $_ != $holder } @feeds;
my $mark = $other->log_mark;
$holder->kill9;
wait_until('the other relay reads the slot', sub { substr($other->log_text, $mark) =~ /streaming from slot/ });
insert('many', 't1', $member);
wait_received('after the takeover', $member);
my ($last) = reverse $cluster->entries('clairon:{0}:stream');
my ($after) = ($last->{after} // '') =~ /(?:^| )@{[ sprintf '%x', $shard ]}:([0-9a-f]+)\./;
cmp_ok(hex($after // 0), '>', (hex($high) << 32) + hex $low, 'the row of the group follows the row of the lost shard');

$cluster->resume($lost);
wait_received('the node is back', $away, $member);
is_deeply([ received($_) ], $expected{$_}, "$_ receives its rows in order") for $away, $member;

done_testing();
