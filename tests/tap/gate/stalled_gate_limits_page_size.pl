# Does a gate that stood still, and has many large notifications to read, read them a few at a time?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

use constant { MANY => 60, LARGE => 900_000 };

my $store  = Clairon::Test::store();
my $writer = Clairon::Test::relay(undef, $store, roles => 'gate');
my $reader = Clairon::Test::relay(undef, $store, roles => 'gate');
my $api    = token(sub => 'api', publish => JSON::true);

sub publish
{
    my $note = { payload => { text => 'x' x LARGE }, routing => { audience => { type => 'USER', targets => ['nobody'] } } };
    my $answer = Clairon::Test::RawSocket->new($writer)->request(POST => '/v1/notifications', Authorization => "Bearer $api", ':body' => $note);
    die "not taken: $answer->{status}\n" if $answer->{status} != 201;
    return;
}
sub wait_read { my ($count) = @_; wait_until("$count are read", sub { $reader->metric('clairon_hub_notifications_total') >= $count }); return }

# The most memory that it ever had, in kB.
sub most
{
    open my $file, '<', '/proc/' . $reader->pid . '/status' or die "no status: $!\n";
    my ($most) = map { /^VmHWM:\s+(\d+)/ } <$file>;
    return $most;
}

publish();
wait_read(1);
my $before = most();
kill STOP => $reader->pid;
publish() for 1 .. MANY;
kill CONT => $reader->pid;
wait_read(1 + MANY);
my $grown = most() - $before;
note("grown by $grown kB");
SKIP: {
    skip 'a sanitizer has memory of its own', 1 if Clairon::Test::is_sanitized();
    cmp_ok($grown, '<', MANY * LARGE / 1024, 'large notifications are not read all at once');
}
is($_->stop, 0, 'SIGTERM ends the relay in good order') for $writer, $reader;

done_testing();
