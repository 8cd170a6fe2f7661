# Is an ack counted once, however often it comes, and told by a trace before and after its message is done?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub notify { my ($targets, $mark, @more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$targets}', '{\"mark\": \"$mark\"}',"
        . join(', ', 'ack_required => true', @more) . ')') }
sub left_of { my ($id) = @_; return (split / /, $store->execute('HGET', $store->of($id, 'pending'), $id) // '- done')[1] }
sub acked_by
{
    my ($id) = @_;
    my ($code, $out, $err) = $relay->run('trace', '--json', $id);
    return join ' ', sort map { $_->{stage} eq 'acked' ? $_->{user} : () } @{ JSON::decode_json($code == 0 ? $out : die $err)->{events} };
}

my ($one, $two) = map { $relay->client($_) } qw(u1 u2);
my @ids = map { notify('u1,u2,u3', $_, "ttl => '1 hour'") } qw(a b c);
$one->run_until('three each', sub { $one->notifications == 3 && $two->notifications == 3 });

# The same one several times in a batch, beside others.
$one->ack(@ids[ 0, 0, 1, 0 ]);
wait_until('taken', sub { left_of($ids[1]) eq '2' });
is_deeply([ map { left_of($_) } @ids ], [ 2, 2, 3 ], 'once each');
$one->ack(@ids);
wait_until('the third too', sub { left_of($ids[2]) eq '2' });
is_deeply([ map { left_of($_) } @ids ], [ 2, 2, 2 ], 'and not again in a later batch');
is(acked_by($ids[0]), 'u1', 'a trace tells it while others are waited for');
is($store->execute('LLEN', $store->of($ids[0], "trail:$ids[0]")), 3, 'from what is kept once: its trail says what was sent');

# One of a user's acks is not his to give.
my $other = notify('u2', 'other');
$two->run_until('it', sub { $two->notifications == 4 });
$one->ack($other);
$two->ack($ids[0], '01890000-0000-7000-8000-000000000000', $ids[1]);
wait_until('taken', sub { left_of($ids[1]) eq '1' });
is_deeply([ left_of($ids[0]), left_of($other) ], [ 1, 1 ], 'what is unknown, or not his, changes nothing');

# The last one ends the message; all are told then.
$relay->client('u3')->ack(@ids[ 0, 1 ]);
wait_until('done', sub { left_of($ids[1]) eq 'done' });
is(acked_by($_), 'u1 u2 u3', 'a trace has them once it is done') for @ids[ 0, 1 ];
is($store->execute('EXISTS', $store->of($ids[0], "ack:$ids[0]")), 0, 'whose state is gone');
cmp_ok($store->execute('PTTL', $store->of($ids[0], "acked:$ids[0]")), '>', 0, 'and what is kept of it goes with time');

# An end leaves nobody's ack out.
$store->execute('ZADD', $store->of($ids[2], 'due'), 1, "$ids[2]:");
wait_until('it has ended', sub { $store->execute('XLEN', 'clairon:errors') == 1 });
is(acked_by($ids[2]), 'u1', 'who acked before its end is told');
is_deeply([ sort @{ JSON::decode_json(($store->entries('clairon:errors'))[0]{users}) } ], [qw(u2 u3)],
    'who did not is in the error log');
$two->ack($other);
wait_until('nothing waits', sub { $store->pending == 0 });

# Given up, asked for again from the error log, and done a second time: neither time's acks are lost.
my $twice = notify('u1,u2,u3,u4', 'twice', 'retry_limit => 0');
my ($three, $four) = map { $relay->client($_) } qw(u3 u4);
$_->run_until('it', sub { grep { $_->{metadata}{id} eq $twice } $_->notifications }) for $one, $two, $three, $four;
$_->ack($twice) for $one, $two;
wait_until('two acks', sub { left_of($twice) eq '2' });
sub give_up { my ($user) = @_;
    wait_until('it is due', sub { $store->execute('ZSCORE', $store->of($twice, 'due'), "$twice:$user") });
    $store->execute('ZADD', $store->of($twice, 'due'), 1, "$twice:$user");
    return }
give_up($_) for qw(u3 u4);
wait_until('done', sub { left_of($twice) eq 'done' });
is(acked_by($twice), 'u1 u2', 'who acked before it was done');
my ($code, $out, $err) = $relay->run('errors', 'redrive', '--id', $twice);
like($out, qr/^redrove [12] entr(?:y|ies) for 2 users$/, 'given again to who did not') or diag($err);
$three->ack($twice);
wait_until('one more', sub { left_of($twice) eq '1' });
$four->ack($twice);
wait_until('done again', sub { left_of($twice) eq 'done' });
is(acked_by($twice), 'u1 u2 u3 u4', 'all of both times');
is_deeply([ grep { /:(ack:|inbox|tries|pending|due)/ } @{ $store->execute('KEYS', '*') } ], [], 'and no trace of it stays');
done_testing();
