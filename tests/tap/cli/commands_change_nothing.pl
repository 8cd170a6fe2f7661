# Tests that the commands that only read, and the doctor, change nothing in the store: neither in one that no relay has
# used, nor in one that has restarted, where a relay would begin a new generation.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');

# Returns the contents of all keys.
sub contents { return { map { $_ => $store->execute_bytes('DUMP', $_) } @{ $store->execute('KEYS', '*') } } }

sub check_unchanged
{
    my ($what, $before, $id, %code) = @_;
    for my $case ([qw(errors list --json)], [qw(errors redrive --all --dry-run)], [ 'trace', $id ], ['doctor'])
    {
        my ($code, $out, $err) = $relay->run(@$case);
        is($code, $code{ $case->[0] } // 0, "$what: the exit status of @$case") or diag $out, $err;
        is_deeply(contents(), $before, "$what: @$case changes nothing");
    }
    return;
}

my $posted = Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true),
    ':body' => { payload => {}, routing => { audience => { type => 'USER', targets => ['u1'] }, retry => { ack_required => JSON::true } } });
my $id = $posted->{json}{id};
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
wait_until('the notification is in the error log', sub { $store->error_count == 1 });
$relay->stop;
$store->restart;
my $before = contents();
like((keys %$before)[0], qr/^clairon/, 'the store has data');
check_unchanged('a store that has restarted', $before, $id);
my $rejected = 0;
my $proxy = Clairon::Test::proxy($store->{socket}, edit => sub { $_[0] =~ s/\A\*4\r\n.*/-NOSCRIPT No matching script\r\n/s && $rejected++ if $rejected < 3 });
my ($code, $out, $err) = $relay->run('trace', $id, '--store.url=' . $proxy->url('redis'));
is_deeply([ $code, $err ], [ 0, '' ], 'a trace is repeated when the scripts were flushed');
like($out, qr/ errored /, 'the repeated trace is printed');
is_deeply([ ($relay->run('errors', 'redrive', $id))[ 0, 1 ] ], [ 0, "redrove 1 entry for 1 user\n" ], 'a redrive needs no relay');
my $pending = contents();
is((($relay->run('drop', @$_, '--dry-run'))[1]), "would drop 1 notification for 1 user; nothing was changed\n", "a dry run counts: drop @$_") for [$id], [ '--source', 'notify' ];
is_deeply(contents(), $pending, 'a dry run of drop changes nothing');
is_deeply([ ($relay->run('drop', $id))[ 0, 1 ] ], [ 0, "dropped 1 notification for 1 user\n" ], 'a drop needs no relay');

$store->execute('FLUSHALL');
check_unchanged('a store without data', {}, $id, trace => 1);

done_testing();
