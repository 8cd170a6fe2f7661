# Tests the ends of transactions after a failover in which shard 0 has lost its newest notifications, and the shard of the user has not:
# shard 0 receives them again, behind later ones of the user. The end of such a transaction follows all of it.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

use constant ROWS => 5000;    # more than a session queues, in many batches

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 2 }

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE news (id int PRIMARY KEY, body text);
    CREATE TABLE own (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('news', 'ALL');
    SELECT clairon.watch('own', 'USER', 'owner')});
my $store = Clairon::Test::store();
# Too few replicas are connected, so no LSN is confirmed, and PostgreSQL retains all WAL.
my $feed = Clairon::Test::relay($pg, $store, roles => 'feed', conf => { 'store.min_replicas' => 1 });
my $gate = Clairon::Test::relay(undef, $store, roles => 'gate');

# Returns the transactions of the append-only file: [ bytes, keys of their commands ].
sub transactions
{
    my ($bytes) = @_;
    my ($open, @found);
    while ($bytes =~ /\G\*(\d+)\r\n/gc)
    {
        my ($from, $count, @arguments) = (pos($bytes) - 3 - length $1, $1);
        for (1 .. $count)
        {
            $bytes =~ /\G\$(\d+)\r\n/gc or die "no argument\n";
            push @arguments, substr $bytes, pos $bytes, $1;
            pos($bytes) += $1 + 2;
        }
        my $text = substr $bytes, $from, pos($bytes) - $from;
        my $name = uc $arguments[0];
        $open = [ '', [] ] if $name eq 'MULTI';
        if (!$open) { push @found, [ $text, [ $arguments[1] // '' ] ]; next }
        $open->[0] .= $text;
        push @{ $open->[1] }, $arguments[1] if @arguments > 1;
        if ($name eq 'EXEC') { push @found, $open; undef $open }
    }
    return @found;
}

# Removes what shard 0 has stored since the first row of the table.
sub lose_shard_0
{
    my ($path) = (glob("$store->{folder}/appendonlydir/*.incr.aof"), glob("$store->{folder}/appendonly.aof"));
    my $bytes = PostgreSQL::Test::Utils::slurp_file($path);
    my ($is_lost, $lost, $kept) = (0, 0, '');
    for my $transaction (transactions($bytes))
    {
        $is_lost ||= $transaction->[0] =~ /"source":"news"/;
        my $is_shard_0 = grep { /^clairon:\{0\}:/ } @{ $transaction->[1] };
        if ($is_lost && $is_shard_0) { $lost++ }
        else                         { $kept .= $transaction->[0] }
    }
    open my $file, '>:raw', $path or die "could not open $path: $!";
    print {$file} $kept;
    close $file or die "could not write $path: $!";
    return $lost;
}

my $first = $gate->client('u1');
my $pos   = $first->pos;
$pg->safe_psql('postgres', q{INSERT INTO news SELECT i, repeat('x', 200) FROM generate_series(1, } . ROWS . ') i');
$pg->safe_psql('postgres', q{INSERT INTO own VALUES (1, 'u1')});
$first->run_until('all rows arrive', sub { $first->notifications >= ROWS + 1 });
$first->close;
$feed->kill9;
$store->kill9;
cmp_ok(lose_shard_0(), '>', 0, 'shard 0 has lost its newest notifications');
$store->start;
$gate->wait_ready;

my $client = $gate->client('u1', pos => $pos, ends => JSON::true);
$client->run_until('the row of the user arrives', sub { $client->notifications });
is(join(' ', map { $_->{metadata}{source} } $client->notifications), 'own', 'the shard of the user has lost nothing');
$feed->start;
$client->run_until('all rows arrive', sub { $client->notifications >= ROWS + 1 });
$client->run_until('the end of the transaction arrives', sub { 2 <= grep { $_->{t} eq 'end' } @{ $client->{messages} } });
my @kinds = map { $_->{t} eq 'end' ? "end" : $_->{n}{metadata}{source} } grep { $_->{t} =~ /^(msg|end)$/ } @{ $client->{messages} };
my %order;
is(join(' ', grep { ($order{last} // '') ne $_ && ($order{last} = $_) } @kinds), 'own news end', 'each end follows all of its transaction');
is($client->gaps, '', 'the client receives no gap');

done_testing();
