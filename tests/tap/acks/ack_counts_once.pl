# Tests that repeated acks of one notification count once, and that a trace reports them before and after completion.
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
sub pending_count { my ($id) = @_; return (split / /, $store->execute('HGET', $store->of($id, 'pending'), $id) // '- done')[1] }
sub acked_by
{
    my ($id) = @_;
    my ($code, $out, $err) = $relay->run('trace', '--json', $id);
    return join ' ', sort map { $_->{stage} eq 'acked' ? $_->{user} : () } @{ JSON::decode_json($code == 0 ? $out : die $err)->{events} };
}

my ($one, $two) = map { $relay->client($_) } qw(u1 u2);
my @ids = map { notify('u1,u2,u3', $_, "ttl => '1 hour'") } qw(a b c);
$one->run_until('each user has three notifications', sub { $one->notifications == 3 && $two->notifications == 3 });

# One batch repeats an id together with other ids.
$one->ack(@ids[ 0, 0, 1, 0 ]);
wait_until('the ack is stored', sub { pending_count($ids[1]) eq '2' });
is_deeply([ map { pending_count($_) } @ids ], [ 2, 2, 3 ], 'repeated ids in a batch count once');
$one->ack(@ids);
wait_until('the third ack is stored', sub { pending_count($ids[2]) eq '2' });
is_deeply([ map { pending_count($_) } @ids ], [ 2, 2, 2 ], 'a later batch does not count the same acks again');
is(acked_by($ids[0]), 'u1', 'a trace reports the ack while the notification is pending for other users');
is($store->execute('LLEN', $store->of($ids[0], "trace:$ids[0]")), 3, 'repeated acks add no event to the trace');

# A user can acknowledge only notifications for that user.
my $other = notify('u2', 'other');
$two->run_until('the notification arrives', sub { $two->notifications == 4 });
$one->ack($other);
$two->ack($ids[0], '01890000-0000-7000-8000-000000000000', $ids[1]);
wait_until('the ack is stored', sub { pending_count($ids[1]) eq '1' });
is_deeply([ pending_count($ids[0]), pending_count($other) ], [ 1, 1 ],
    'acks of unknown ids and of other users\' notifications are ignored');

# The last ack completes the notification; the trace then lists all acks.
$relay->client('u3')->ack(@ids[ 0, 1 ]);
wait_until('the notification is complete', sub { pending_count($ids[1]) eq 'done' });
is(acked_by($_), 'u1 u2 u3', 'a trace lists all acks after completion') for @ids[ 0, 1 ];
is($store->execute('EXISTS', $store->of($ids[0], "ack:$ids[0]")), 0, 'the pending state is deleted');
cmp_ok($store->execute('PTTL', $store->of($ids[0], "acked:$ids[0]")), '>', 0, 'the stored acks expire');

# An expired notification keeps its acks.
$store->execute('ZADD', $store->of($ids[2], 'due'), 1, "$ids[2]:");
wait_until('the notification is in the error log', sub { $store->error_count == 1 });
is(acked_by($ids[2]), 'u1', 'the trace lists the user who acknowledged before the expiration');
is_deeply([ sort @{ JSON::decode_json(($store->errors)[0]{users}) } ], [qw(u2 u3)],
    'the error log lists the users who did not acknowledge');
$two->ack($other);
wait_until('no notification is pending', sub { $store->pending == 0 });

# A relay of a newer release may add fields to the value of a pending notification.
my $newer = notify('u1,u2,u3', 'newer');
wait_until('the notification is pending', sub { pending_count($newer) eq '3' });
my $key = $store->of($newer, 'pending');
$store->execute('HSET', $key, $newer, $store->execute('HGET', $key, $newer) . ' Znewer q');
$one->ack($newer);
wait_until('the ack is stored', sub { pending_count($newer) eq '2' });
like($store->execute('HGET', $key, $newer), qr/ Znewer q$/, 'an ack keeps unknown fields');
$two->run_until('the notification is due', sub { $store->execute('ZSCORE', $store->of($newer, 'due'), "$newer:u2") });
$store->execute('ZADD', $store->of($newer, 'due'), 1, "$newer:u2");
$two->run_until('the notification is retried', sub { $store->execute('HGET', $key, $newer) =~ / r/ });
like($store->execute('HGET', $key, $newer), qr/ Znewer q$/, 'a retry keeps unknown fields');
$two->ack($newer);
$relay->client('u3')->ack($newer);
wait_until('the notification is complete', sub { pending_count($newer) eq 'done' });

# An exhausted notification is redriven and completed: the acks from before and after the redrive are kept.
my $twice = notify('u1,u2,u3,u4', 'twice', 'retry_limit => 0');
my ($three, $four) = map { $relay->client($_) } qw(u3 u4);
$_->run_until('the notification arrives', sub { grep { $_->{metadata}{id} eq $twice } $_->notifications }) for $one, $two, $three, $four;
$_->ack($twice) for $one, $two;
wait_until('two acks are stored', sub { pending_count($twice) eq '2' });
sub exhaust { my ($user) = @_;
    wait_until('the notification is due', sub { $store->execute('ZSCORE', $store->of($twice, 'due'), "$twice:$user") });
    $store->execute('ZADD', $store->of($twice, 'due'), 1, "$twice:$user");
    return }
exhaust($_) for qw(u3 u4);
wait_until('the notification is complete', sub { pending_count($twice) eq 'done' });
is(acked_by($twice), 'u1 u2', 'a trace lists the acks before the notification was exhausted');
my ($code, $out, $err) = $relay->run('errors', 'redrive', '--id', $twice);
like($out, qr/^redrove [12] entr(?:y|ies) for 2 users$/, 'only users who did not acknowledge receive the redriven notification') or diag($err);
$three->ack($twice);
wait_until('another ack is stored', sub { pending_count($twice) eq '1' });
$four->ack($twice);
wait_until('the notification is complete again', sub { pending_count($twice) eq 'done' });
is(acked_by($twice), 'u1 u2 u3 u4', 'a trace lists the acks before and after the redrive');
is_deeply([ grep { /:(ack:|retries|pending|due)/ } @{ $store->execute('KEYS', '*') } ], [], 'no state of the notification remains');
done_testing();
