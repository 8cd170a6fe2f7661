# Tests how many commands of the store a row costs with 16 shards: only its shard and shard 0 record the progress, until all
# shards do for the confirmation. A barrier is served before that.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 16 }
use Clairon::Test qw(wait_until wait_confirmed token);
use POSIX ();
use Test::More;

use constant { ROWS => 40, SHARDS => 16 };

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
$pg->safe_psql('postgres', q{CREATE TABLE task (id int PRIMARY KEY, owner text); SELECT clairon.watch('task', 'USER', 'owner', operations => '{create}')});
my $relay  = Clairon::Test::relay($pg, $store);
my $client = $relay->client('u1');

my ($id, $received) = (0, 0);
sub row { my ($user) = @_; return $pg->safe_psql('postgres', 'INSERT INTO task VALUES (' . ++$id . ", '$user') RETURNING pg_current_xact_id()") =~ s/\n.*//sr }
sub own_row { row('u1'); return $client->wait_notifications(++$received) }

# Writes the commands to a file: the start of each line of MONITOR.
my $commands = Clairon::Test::scratch() . '/commands';
my $monitor  = fork // die "could not fork: $!";
if ($monitor == 0)
{
    open my $out, '>', $commands or POSIX::_exit(1);
    $out->autoflush(1);
    my $link = $store->link;
    print {$link} "MONITOR\r\n";
    $link->flush;
    while (my $line = <$link>) { print {$out} substr($line, 0, 300), "\n" }
    POSIX::_exit(0);
}
wait_until('commands are monitored', sub { -s $commands });
sub monitored
{
    my ($mark) = @_;
    $store->execute('ECHO', $mark);
    my $text;
    wait_until('the commands are written', sub { local (@ARGV, $/) = $commands; ($text = <>) =~ /"ECHO" "$mark"/ });
    return $text;
}

own_row();
my ($own) = grep { $store->execute('XLEN', "clairon:{$_}:stream") } 1 .. SHARDS - 1;
wait_confirmed($pg);
monitored('begin');
own_row() for 1 .. ROWS;
my $rows = monitored('end') =~ s/.*"ECHO" "begin"//sr;

# A row has four commands that name the progress of its shard, and three in shard 0; a record has three in each shard.
my %count = map { $_ => scalar(() = $rows =~ /"clairon:\{$_\}:progress:clairon"/g) } 0 .. SHARDS - 1;
cmp_ok($count{$_}, '>=', 2 * ROWS, "a row of shard $own is recorded in shard $_") for $own, 0;
is(join(' ', grep { $_ != 0 && $_ != $own && $count{$_} >= ROWS } 0 .. SHARDS - 1), '', 'few rows are recorded in the other shards');

wait_confirmed($pg);
sub recorded { my ($shard) = @_; my $key = "clairon:{$shard}:progress:clairon"; return $store->execute('HGET', $key, 'read:' . $store->execute('HGET', $key, 'owner')) }
my $confirmed = $pg->safe_psql('postgres', q{SELECT lpad(to_hex((confirmed_flush_lsn - '0/0')::bigint), 16, '0') FROM pg_replication_slots});
is(join(' ', grep { recorded($_) lt $confirmed } 0 .. SHARDS - 1), '', 'each shard has recorded what is confirmed');

# The user of the barrier has no row in this transaction. The shards may record it at the same time, so it is repeated.
wait_until('a barrier is served although its shard has recorded nothing', sub {
    my $before = recorded($own);
    my ($status) = $relay->get('/v1/barrier?x=' . row('another'), Authorization => 'Bearer ' . token(sub => 'u1'));
    $status == 200 or die "the status of a barrier is $status\n";
    recorded($own) eq $before });
pass('a barrier is served although its shard has recorded nothing');

kill TERM => $monitor;
waitpid $monitor, 0;
done_testing();
